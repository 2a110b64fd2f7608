"""How torch's threads wait for each other: spinning for milliseconds, or for a moment only, switched as a program runs.

Spinning is fastest on an idle machine. Beside a busy program it is many times slower than sleeping: threads use up
their time on the processor by waiting, and get it back late. GNU's OpenMP spins for a moment only (100 turns of its
loop) while a process has more threads in its teams than there are processors, as its manual says of GOMP_SPINCOUNT; a
sleeping thread with a team of its own makes them more. Which thread computes what stays as it is, and so do all bits.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import perf_counter, process_time

CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")  # by which users say themselves how threads wait
LOOKED_AGAIN = 0.2  # seconds between two looks at what others do
SHARE = 0.25  # of a processor: what others may take of those that our threads need


def can_switch() -> bool:
    """Whether there are threads that wait for each other, and nobody has chosen how they do."""
    is_open = sys.platform.startswith("linux") and not any(name in os.environ for name in CHOICES)
    return is_open and _count_threads() > 1


def _count_threads() -> int:
    """Those that torch computes with in the calling thread; none where it is not loaded."""
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch is not None else 0


class BriefWaits:
    """A switch: while it is on, the threads of this process spin for a moment only."""

    def __init__(self) -> None:
        self._end: Event | None = None
        self._thread: Thread | None = None

    def switch(self, is_on: bool) -> None:
        if is_on == (self._end is not None):
            return
        if self._end is not None and self._thread is not None:
            self._end.set()
            self._thread.join()
            self._end = self._thread = None
            return
        ready, self._end = Event(), Event()
        self._thread = Thread(target=_hold_a_team, args=(ready, self._end), daemon=True)
        self._thread.start()
        ready.wait()


def _hold_a_team(ready: Event, end: Event) -> None:
    """Make a team of threads that is large enough for all to be more than the processors, and sleep."""
    import torch

    try:
        usual = torch.get_num_threads()
        size = max(len(os.sched_getaffinity(0)) - usual + 2, 2)
        torch.set_num_threads(size)  # in this thread alone
        torch.ones(size << 16).add_(1)
        torch.set_num_threads(usual)  # the number that threads of Python begin with
    finally:
        ready.set()
    end.wait()


class Neighbours:
    """What other programs take of the processors, by the system's own count."""

    def __init__(self, threads: int) -> None:
        self._free = (os.cpu_count() or 1) - threads + SHARE
        self._before = self._look()

    def are_busy(self) -> bool:
        """Whether they have taken processors that our threads need since this was last asked."""
        now = self._look()
        seconds, others = (new - old for new, old in zip(now, self._before, strict=True))
        self._before = now
        return others > self._free * seconds

    def _look(self) -> tuple[float, float]:
        """(the time, seconds of the processors that others have had)"""
        try:
            with open("/proc/stat", encoding="ascii") as file:
                user, nice, system, _, _, *interrupts = map(int, file.readline().split()[1:9])
        except (OSError, ValueError):  # of other systems, nothing is known
            return perf_counter(), 0.0
        ticks = user + nice + system + sum(interrupts)
        return perf_counter(), ticks / os.sysconf("SC_CLK_TCK") - process_time()


@contextmanager
def considerate_waits() -> Iterator[None]:
    """Within the block, torch's threads spin for a moment only while other programs are busy; where somebody has chosen
    how they wait, as they are told to."""
    if not can_switch():
        yield
        return
    end = Event()
    watcher = Thread(target=_watch, args=(end, BriefWaits(), Neighbours(_count_threads())), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        end.set()
        watcher.join()


def _watch(end: Event, waits: BriefWaits, neighbours: Neighbours) -> None:
    """Look at the neighbours now and then. It begins with brief waits, which never are many times slower."""
    try:
        waits.switch(True)
        while not end.wait(LOOKED_AGAIN):
            waits.switch(neighbours.are_busy())
    finally:
        waits.switch(False)
