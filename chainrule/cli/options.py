"""What several commands share: flags, so that they are spelled and explained alike, and how torch's threads wait."""

import os
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
RunPath = Annotated[str, typer.Argument(metavar="RUN", help="A run folder, made by chainrule train.")]
Field = Annotated[
    str, typer.Option(help="The field or column that holds the text, in .jsonl, .csv, .tsv and .parquet.")
]
Encoding = Annotated[str, typer.Option(help="The text's encoding, where it is not UTF-8 and has no byte-order mark.")]
As = Annotated[str | None, typer.Option("--as", metavar="RUN", help="The folder to make.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace that run if it exists.")]


def let_threads_sleep() -> None:
    """Before torch is loaded: its threads wait for each other asleep and not by spinning.

    Spinning is a little faster on a machine of one's own; on one that others use too, it is ten times slower.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
