"""Flags and arguments that several commands share, so that they are spelled and explained alike."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from chainrule.cli import completion
from chainrule.cli.flags import option
from chainrule.data.settings import Reading

if TYPE_CHECKING:
    from chainrule.runs.folder import Run

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
RunPath = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run folder, made by chainrule train.", autocompletion=completion.runs),
]
Field = Annotated[str, option(Reading, "field")]
Unit = Annotated[str, option(Reading, "unit")]
Encoding = Annotated[str, option(Reading, "encoding")]
Delimiter = Annotated[str, option(Reading, "delimiter")]
As = Annotated[
    str | None, typer.Option("--as", metavar="RUN", help="The run folder to write; default: a free name in runs/.")
]
Quantize = Annotated[
    str | None, typer.Option(metavar="int8", help="Quantize the weights to 8 bits: faster, slightly less exact.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing run.")]
Greedy = Annotated[bool, typer.Option("--greedy", help="Always take the most likely token (temperature 0).")]


def let_threads_sleep() -> None:
    """Make torch's threads sleep while they wait for each other; call this before torch is imported.

    By default they spin, which is a little faster on an idle machine and ten times slower on a busy one.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def quantize(run: "Run", kind: str) -> None:
    """Round the weights of a loaded run, and tell on standard error what that costs."""
    from chainrule.cli.output import say
    from chainrule.runs.quantized import quantize

    say(str(quantize(run, kind)))
