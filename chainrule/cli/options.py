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

# How to draw a text; what is drawn where a flag is absent is for each command to say.
TEMPERATURE = typer.Option(help="0 is greedy, 1 the model as it is, above 1 wilder.")
TOP_K = typer.Option(help="Keep the k most likely tokens (0: all).")
TOP_P = typer.Option(help="Keep the most likely tokens that make up this much.")
MIN_P = typer.Option(help="Keep tokens at least this likely relative to the best.")
REPETITION_PENALTY = typer.Option(help="Above 1 makes used tokens less likely.")
MAX_TOKENS = typer.Option(help="Stop after so many tokens.")
STOP = typer.Option(metavar="TEXT", help="Stop before this text; may be given several times.")
SAMPLES = typer.Option("--samples", "-n", help="How many texts.")
SEED = typer.Option(help="The same seed gives the same text.")
GREEDY = typer.Option("--greedy", help="Always the most likely token (temperature 0).")
LOGPROBS = typer.Option(help="With --json: so many likely tokens beside each one drawn.")
TRUNCATE = typer.Option("--truncate", help="Read only the end of a prompt that is too long.")


def let_threads_sleep() -> None:
    """Before torch is loaded: its threads wait for each other asleep and not by spinning.

    Spinning is a little faster on a machine of one's own; on one that others use too, it is ten times slower.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def quantize(run: Any, kind: str) -> None:
    """Rounds the weights, and says what it costs."""
    from chainrule.cli.output import say
    from chainrule.runs.quantized import quantize

    say(str(quantize(run, kind)))
