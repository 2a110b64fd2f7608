"""`chainrule merge`: n-gram models of parts of a text become the model of the whole."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from chainrule.cli import options

if TYPE_CHECKING:
    from chainrule.models import ngram
    from chainrule.runs.records import DataConfig


def command(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN RUN...", help="N-gram runs with the same tokenizer and order.")
    ],
    as_: options.As = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Merge n-gram runs by adding up their counts, exactly as if trained on all their texts."""
    from chainrule.cli.output import print_json, print_notes, say
    from chainrule.errors import UserError
    from chainrule.runs.folder import Run
    from chainrule.runs.making import free_name
    from chainrule.runs.write import store

    loaded = [Run(run) for run in runs]
    if len(loaded) < 2:
        raise UserError("merging takes at least two runs")
    for run in loaded:
        if run.architecture != "ngram":
            raise UserError(f"only n-gram models can be merged; '{run.path}' is of kind {run.architecture}")
        if run.tokenizer.fingerprint != loaded[0].tokenizer.fingerprint:
            first = loaded[0].path
            raise UserError(f"'{run.path}' and '{first}' have different tokenizers; train one with --tokenizer {first}")
    model, *others = [cast("ngram.Model", run.model) for run in loaded]
    for other in others:
        model = model.add(other)
    data: DataConfig = {
        "inputs": [each for run in loaded for each in run.config["data"]["inputs"]],
        "unit": loaded[0].config["data"]["unit"],
        "merged": [str(run.path) for run in loaded],
    }
    path = Path(as_) if as_ else free_name("merged", overwrite)
    known = [run.counted_documents() for run in loaded]
    documents = None if any(each is None for each in known) else [hash for each in known for hash in each or []]
    merged = store(path, "ngram", model, loaded[0].tokenizer, data, overwrite, documents)
    if as_json:
        print_json({"run": str(merged.path), "config": merged.config, "model": model.describe()})
    else:
        print(merged.path)
        print_notes(merged.config["notes"])
        say(f"next: chainrule evaluate {merged.path} YOUR.txt")
