"""Progress bars with rate and time left, on standard error; nothing at all where that is not a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]


@contextmanager
def progress(label: str, total: int, unit: str = "") -> Iterator[Advance]:
    """with progress("reading", size, "bytes") as advance: advance(4096)"""
    if not sys.stderr.isatty() or total <= 0:
        yield lambda amount: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    bytes_columns = (DownloadColumn(), TransferSpeedColumn()) if unit == "bytes" else ()
    columns = (TextColumn("{task.description:<12}"), BarColumn(), TaskProgressColumn(show_speed=True), *bytes_columns)
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda amount: bar.advance(task, amount)
