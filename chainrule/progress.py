"""What people see while they wait: progress bars with rate and time left, on standard error, nothing at all where that
is not a terminal or where quiet was asked for; and what makes a text or a count fit to be shown there."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

Advance = Callable[[int], None]
QUIET = "CHAINRULE_QUIET"  # an environment variable, so that processes which are started here see it, too


def is_quiet() -> bool:
    """Whether progress and remarks are left out."""
    return bool(os.environ.get(QUIET))


@contextmanager
def quiet() -> Iterator[None]:
    """Within the block, progress and remarks are left out."""
    before = os.environ.get(QUIET)
    os.environ[QUIET] = "1"
    try:
        yield
    finally:
        os.environ.pop(QUIET)
        if before is not None:
            os.environ[QUIET] = before


@contextmanager
def progress(label: str, total: int, unit: str = "bytes") -> Iterator[Advance]:
    """with progress("reading", size) as advance: advance(4096)"""
    if is_quiet() or not sys.stderr.isatty() or total <= 0:
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
    if not is_quiet():
        print(visible(line), file=sys.stderr, flush=True)


CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def visible(text: str) -> str:
    """Control characters, which a model may well sample, as escapes: a terminal would obey them."""
    return CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def visible_token(token: str) -> str:
    """One token by itself: its line ends and tabs as signs, and spaces too where it is nothing else."""
    shown = visible(token).replace("\n", "⏎").replace("\t", "⇥")
    return shown if shown.strip() else shown.replace(" ", "␣")


def times(count: int) -> str:
    """'never', 'once', '1,200 times'."""
    return {0: "never", 1: "once"}.get(count, f"{count:,} times")


def size(count: float) -> str:
    """1234567 -> '1.2 MB'."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError
