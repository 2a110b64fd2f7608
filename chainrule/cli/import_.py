"""`chainrule import`: a model that another program made."""

from pathlib import Path
from typing import Annotated

import typer

from chainrule.cli import completion, options
from chainrule.interop.read import describe_importers


def command(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help=f"{describe_importers()[0].upper()}{describe_importers()[1:]}.",
        ),
    ],
    as_: options.As = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="The tokenizer, if the format keeps it in a file of its own (llama2.c, nanoGPT)."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="The run that a LoRA adapter is added to; else the one of the name that the adapter gives.",
            autocompletion=completion.runs,
            show_default=False,
        ),
    ] = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Import a model from another program as a run, for use with every other command."""
    from chainrule.cli.output import print_json, print_notes, say
    from chainrule.interop.importing import import_run

    imported = import_run(path, Path(as_) if as_ else None, tokenizer, overwrite, Path(base) if base else None)
    run, found = imported.run, imported.found
    if as_json:
        print_json(
            {"run": str(run.path), "format": found.format, "config": run.config, "model": found.model.describe()}
        )
    else:
        print(run.path)
        print_notes([*found.notes, *found.model.notes()])
        if found.source is None:
            say(f"next: chainrule sample {run.path} --prompt 'The'   or   chainrule evaluate {run.path} YOUR.txt")
        else:
            say(f"next: chainrule translate {run.path} YOUR.txt   or   chainrule explain {run.path} 'A sentence'")
