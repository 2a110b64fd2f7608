"""`chainrule import`: a model that another program made."""

from pathlib import Path
from typing import Annotated

import typer

from chainrule.cli import options


def command(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="An ARPA file, .gz or not.")],
    as_: options.As = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Make a run from a model in another program's format (ARPA)."""
    from chainrule.cli.output import print_json, print_notes, say
    from chainrule.interop.arpa import read_arpa
    from chainrule.runs.making import free_name
    from chainrule.runs.write import store

    model, tokenizer = read_arpa(path)
    name = Path(as_) if as_ else free_name(path.name.partition(".")[0])
    run = store(name, "ngram", model, tokenizer, {"inputs": [str(path)], "unit": "line"}, overwrite)
    if as_json:
        print_json({"run": str(run.path), "config": run.config, "model": model.describe()})
    else:
        print(run.path)
        print_notes(model.notes())
        say(f"next: chainrule sample {run.path}   or   chainrule evaluate {run.path} YOUR.txt")
