"""`chainrule explain`: why a model predicts what it does."""

from pathlib import Path
from typing import Annotated, Any

import typer

from chainrule.cli import options


def command(
    run: options.RunPath,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the model reads; - reads it from standard input.")],
    token: Annotated[
        str | None, typer.Option(help="The next token to explain; default: the likeliest.", show_default=False)
    ] = None,
    faces: Annotated[int, typer.Option(help="How many of the likeliest next tokens to show.")] = 12,
    temperature: Annotated[float, typer.Option(help="Show what this would make of the die.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="And keeping the k most likely tokens (0: all).")] = 0,
    top_p: Annotated[float, typer.Option(help="And keeping the most likely that make up this much.")] = 1.0,
    min_p: Annotated[float, typer.Option(help="And those at least this likely relative to the best.")] = 0.0,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it as a page too, with heat maps.", show_default=False)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Explain a prediction: the die, the surprise, what mattered, and the reason in the model's own terms."""
    options.let_threads_sleep()
    import sys

    from chainrule.api import load
    from chainrule.cli.output import print_json, print_notes, say
    from chainrule.errors import UserError

    if not 1 <= faces <= 1000:
        raise UserError(f"--faces must be from 1 to 1000, got {faces}")
    text = sys.stdin.read() if text == "-" else text
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    found = load(run).explain(text, token, faces=faces, **sampling)
    if html is not None:
        try:
            html.write_text(found.html(), encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write '{html}': {error.strerror}") from None
    if as_json:
        print_json(found.to_json())
        return
    _report(found)
    print_notes(found.notes)
    say(f"page: {html}" if html else "as a page, with heat maps: --html FILE.html")


def _report(found: Any) -> None:
    from rich.console import Console

    from chainrule.explain.terminal import sections

    console = Console(highlight=False, soft_wrap=True)
    for section in sections(found):
        console.print(section)
