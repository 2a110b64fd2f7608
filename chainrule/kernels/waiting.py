"""How torch's threads wait for each other: spinning for milliseconds, or for a moment only, switched as a program runs.

Spinning is fastest on an idle machine. Beside a busy program it is many times slower than sleeping: threads use up
their time on the processor by waiting, and get it back late. GNU's OpenMP spins for a moment only (100 turns of its
loop) while a process has more threads in its teams than there are processors, as its manual says of GOMP_SPINCOUNT; a
sleeping thread with a team of its own makes them more. Which thread computes what stays as it is, and so do all bits.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import perf_counter

CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")  # by which users say themselves how threads wait
SAMPLES = 3  # the shortest of the latest durations counts: whatever disturbs a measurement makes it longer
DISTURBED = 2.0  # a step that is so many times as long as one with brief waits need not be measured twice
TRIED_AFTER = 2.0  # seconds, at the least, until the slower way is tried again
WORTH_TRYING = 30.0  # and so many times what the last try has cost


def can_switch() -> bool:
    """Whether there are threads that wait for each other, and nobody has chosen how they do."""
    torch = sys.modules.get("torch")
    is_open = sys.platform.startswith("linux") and not any(name in os.environ for name in CHOICES)
    return is_open and torch is not None and torch.get_num_threads() > 1


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


@contextmanager
def brief_waits() -> Iterator[None]:
    """Within the block, torch's threads spin for a moment only, unless somebody has chosen how they wait."""
    waits = BriefWaits()
    waits.switch(can_switch())
    try:
        yield
    finally:
        waits.switch(False)


class WaitChooser:
    """Chooses by the durations of steps: both ways to wait are timed, the faster one is kept, the other tried now and
    then, the more seldom the more a try has cost. It begins with brief waits, which never are much slower."""

    def __init__(self, switch: Callable[[bool], None], clock: Callable[[], float] = perf_counter) -> None:
        self.is_brief = True
        self._switch, self._clock = switch, clock
        self._seconds: dict[bool, deque[float]] = {way: deque(maxlen=SAMPLES) for way in (False, True)}
        self._cost = 0.0  # of the try that is under way: what its steps took beyond the usual
        self._next_try: float | None = None  # None: a try is under way
        self._switch(True)

    def note(self, seconds: float) -> None:
        """A step has taken so long; the next one may wait in another way."""
        mine, others = self._seconds[self.is_brief], self._seconds[not self.is_brief]
        mine.append(seconds)
        usual = min(others, default=float("inf"))
        if others:
            self._cost += max(seconds - usual, 0.0)
        if not self.is_brief and seconds > DISTURBED * usual:
            self._change()
            self._decide()
        elif self._next_try is not None:
            if self._clock() >= self._next_try:
                self._try_other()
        elif len(mine) == SAMPLES:
            if not others:
                self._try_other()
                return
            if min(mine) > usual:
                self._change()
            self._decide()

    def _try_other(self) -> None:
        self._change()
        self._seconds[self.is_brief].clear()
        self._cost, self._next_try = 0.0, None

    def _decide(self) -> None:
        self._next_try = self._clock() + max(TRIED_AFTER, WORTH_TRYING * self._cost)
        self._cost = 0.0

    def _change(self) -> None:
        self.is_brief = not self.is_brief
        self._switch(self.is_brief)


@contextmanager
def chosen_waits() -> Iterator[WaitChooser | None]:
    """Within the block, a chooser to be told how long each step took; None where there is nothing to choose."""
    waits = BriefWaits()
    try:
        yield WaitChooser(waits.switch) if can_switch() else None
    finally:
        waits.switch(False)
