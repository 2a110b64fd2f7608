"""What people see while they wait: progress bars with rate and time left, on standard error, nothing at all where that
is not a terminal; and what makes a text or a count fit to be shown there."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

Advance = Callable[[int], None]


@contextmanager
def progress(label: str, total: int, unit: str = "bytes") -> Iterator[Advance]:
    """with progress("reading", size) as advance: advance(4096)"""
    if not sys.stderr.isatty() or total <= 0:
        yield lambda amount: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:<12}"), BarColumn(), TaskProgressColumn(), *_rate_columns(unit))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda amount: bar.advance(task, amount)


def _rate_columns(unit: str) -> tuple["ProgressColumn", ...]:
    from rich.progress import DownloadColumn, ProgressColumn, Task, TransferSpeedColumn
    from rich.text import Text

    if unit == "bytes":
        return DownloadColumn(), TransferSpeedColumn()

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:,.0f} {unit}/s" if speed else f"? {unit}/s", style="progress.data.speed")

    return (Rate(),)


def say(line: str) -> None:
    """A line for the person who waits, on standard error, whether that is a terminal or not."""
    print(visible(line), file=sys.stderr, flush=True)


CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def visible(text: str) -> str:
    """Control characters, which a model may well sample, as escapes: a terminal would obey them."""
    return CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def visible_token(token: str) -> str:
    """One token by itself: its line ends and tabs as signs, and spaces too where it is nothing else."""
    shown = visible(token).replace("\n", "⏎").replace("\t", "⇥")
    return shown if shown.strip() else shown.replace(" ", "␣")


def size(count: float) -> str:
    """1234567 -> '1.2 MB'."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError
