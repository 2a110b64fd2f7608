"""What several commands share: flags, so that they are spelled and explained alike, and how torch's threads wait."""

import os
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
RunPath = Annotated[str, typer.Argument(metavar="RUN", help="A run folder, made by chainrule train.")]
Field = Annotated[
    str, typer.Option(help="The field or column that holds the text, in .jsonl, .csv, .tsv and .parquet.")
]
Encoding = Annotated[str, typer.Option(help="The text's encoding, where it is not UTF-8 and has no byte-order mark.")]
As = Annotated[str | None, typer.Option("--as", metavar="RUN", help="The folder to make.")]
Quantize = Annotated[
    str | None, typer.Option(metavar="int8", help="Round the weights to eight bits: less exact, and faster.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace that run if it exists.")]


SPINS = "5000"  # some tens of microseconds: about what it takes to wake a thread that sleeps


def let_threads_sleep() -> None:
    """Before torch is loaded: its threads wait awake for a moment only, then asleep.

    To wait awake for long is a little faster on a machine of one's own; on one that others use too, ten times slower.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def quantize(run: Any, kind: str) -> None:
    """Rounds the weights, and says what it costs."""
    from chainrule.cli.output import say
    from chainrule.runs.quantized import quantize

    say(str(quantize(run, kind)))
