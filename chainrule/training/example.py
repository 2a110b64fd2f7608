"""One example as the model reads it, before training begins: what it is asked for is coloured, or in brackets where
there are no colours."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from chainrule.progress import is_quiet, visible

Parts = Sequence[tuple[str, bool]]  # pieces of text, each with whether it is asked for

ASKED, READ = "bold green", "dim"


def show_example(parts: Parts, console: Console | None = None) -> None:
    """Print it on standard error."""
    console = console or Console(stderr=True, highlight=False, quiet=is_quiet())
    if console.no_color or console.color_system is None or not console.is_terminal:
        console.print(Text(f"an example, with what is learned in brackets:\n{in_brackets(parts)}"), soft_wrap=True)
        return
    text = Text.assemble("an example, with what is learned ", ("in colour", ASKED), ":\n")
    for part, is_asked in parts:
        text.append(visible(part), ASKED if is_asked else READ)
    console.print(text, soft_wrap=True)


def in_brackets(parts: Parts) -> str:
    """'<|im_start|>assistant⏎[Hello.<|im_end|>]'"""
    return "".join(f"[{visible(part)}]" if is_asked else visible(part) for part, is_asked in parts)
