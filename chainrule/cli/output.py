"""What commands print: tables for people, JSON for programs, and colour only on a terminal."""

import json
import math
import sys
from collections.abc import Iterable, Sequence
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING

from chainrule.config import without_infinities
from chainrule.errors import one_line
from chainrule.progress import is_quiet
from chainrule.progress import size as size
from chainrule.progress import visible as visible

if TYPE_CHECKING:
    from rich.text import Text


def print_json(value: object) -> None:
    """Print JSON on standard output, with null in place of infinities."""
    print(json.dumps(without_infinities(value), indent=1, ensure_ascii=False, allow_nan=False))


def say(text: str = "") -> None:
    """Print a remark for people on standard error, unless --quiet was given; standard output is for the result."""
    if not is_quiet():
        print(text, file=sys.stderr)


def show_text(text: str, end: str = "") -> None:
    """Print sampled text: as it is to a file or pipe; control characters spelled out on a terminal."""
    print(visible(text) if sys.stdout.isatty() else text, end=end, flush=True)


def print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        say(one_line(f"note: {note}"))


def print_sentence(text: str) -> None:
    """Print a line; on a terminal, one that is too long is wrapped between words."""
    width = get_terminal_size().columns if sys.stdout.isatty() else len(text) + 1
    print(fill(text, max(width, 20), break_long_words=False, break_on_hyphens=False))


def print_rows(rows: Sequence[tuple[str, str]]) -> None:
    """Print aligned 'name  value' lines; on a terminal, names are dimmed and long values wrapped."""
    if not sys.stdout.isatty():
        width = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            print(f"{name:<{width}}  {value}")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, _plain(value))
    Console(highlight=False).print(table)


def print_table(titles: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> None:
    """Print columns under titles; all but the first `left` of them are set to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index, title in enumerate(titles):
        table.add_column(title, justify="left" if index < left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(_plain, row))
    Console(highlight=False, soft_wrap=not sys.stdout.isatty()).print(table)


def _plain(value: str) -> "Text":
    """A text whose square brackets are not markup."""
    from rich.text import Text

    return Text(value)


def plural(count: int, noun: str) -> str:
    """1 document, 2,000 documents."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def number(value: float | None, digits: int = 2) -> str:
    if value is None or math.isinf(value):
        return "infinite"
    if abs(value) >= 1e7:
        return f"{value:.2e}"
    return f"{value:,.{digits}f}"
