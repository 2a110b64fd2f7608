"""Threads that run one kernel together.

Two are up to twice as fast as one, but only while nobody else wants the second core: if it is busy, the first waits for
the second, again and again. So both ways are timed as they are used, and the faster one is kept to. The results are
the same bits.
"""

import os
from collections import defaultdict, deque
from collections.abc import Callable, Hashable
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from time import perf_counter
from typing import Any

import torch

from chainrule.kernels.atomic import give_up
from chainrule.kernels.jit import CORES

SAMPLES = 3  # of the latest durations, the shortest counts: whatever else happens only makes them longer
# The slower way is used once in so many calls, in case it no longer is; ever more of them, as long as it stays so.
TRIED_AGAIN, TRIED_SELDOM = 32, 256

Kernel = Callable[..., Any]  # its last two arguments: the number of this thread, and of all


class _Helper:
    """A thread that does what it is given, one thing after the other."""

    def __init__(self) -> None:
        self._given: SimpleQueue[Callable[[], None]] = SimpleQueue()
        Thread(target=self._serve, daemon=True).start()

    def begin(self, task: Callable[[], None]) -> None:
        """A task must not raise anything."""
        self._given.put(task)

    def wait(self) -> None:
        """Until all that it was given is done."""
        over = Lock()
        over.acquire()
        self._given.put(over.release)
        over.acquire()

    def _serve(self) -> None:
        while True:
            self._given.get()()


class _Pace:
    """What was learned of one piece of work."""

    def __init__(self) -> None:
        self._seconds: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=SAMPLES))
        self._faster, self._calls, self._between = 0, 0, TRIED_AGAIN

    def choose(self, most: int) -> int:
        fewest = min((most, 1), key=lambda threads: len(self._seconds[threads]))
        if len(self._seconds[fewest]) < SAMPLES:
            return fewest
        faster, slower = sorted((most, 1), key=lambda threads: min(self._seconds[threads]))
        if faster != self._faster:
            self._faster, self._calls, self._between = faster, 0, TRIED_AGAIN
        self._calls += 1
        if self._calls < self._between:
            return faster
        self._calls, self._between = 0, min(2 * self._between, TRIED_SELDOM)
        return slower

    def note(self, threads: int, seconds: float) -> None:
        self._seconds[threads].append(seconds)


class ThreadPool:
    def __init__(self) -> None:
        self._helpers: list[_Helper] = []
        self._most = min(torch.get_num_threads(), CORES)  # OMP_NUM_THREADS counts here too
        self._one_at_a_time = Lock()
        self._paces: dict[Hashable, _Pace] = defaultdict(_Pace)

    def run(self, work: Hashable, kernel: Kernel, *arguments: Any) -> None:
        """kernel(*arguments, thread, threads) on as many threads as there may be, or on this one alone.

        With more than one, the kernel must end with `wait_for_all`, at a barrier that its last argument, counters,
        ends with. `work` tells this piece of work from others.
        """
        if self._most == 1:
            kernel(*arguments, 0, 1)
            return
        with self._one_at_a_time:
            pace = self._paces[work]
            threads = pace.choose(self._most)
            began = perf_counter()
            while len(self._helpers) < threads - 1:
                self._helpers.append(_Helper())
            self._run(kernel, arguments, threads)
            pace.note(threads, perf_counter() - began)

    def _run(self, kernel: Kernel, arguments: tuple[Any, ...], threads: int) -> None:
        """Whoever cannot go on lets the others go, and what went wrong is raised here once all have ended."""
        errors: list[BaseException] = []

        def help(number: int) -> None:
            try:
                kernel(*arguments, number, threads)
            except BaseException as error:
                errors.append(error)
                give_up(arguments[-1])

        try:
            for number in range(1, threads):
                self._helpers[number - 1].begin(partial(help, number))
            kernel(*arguments, 0, threads)
            if errors:
                raise errors[0]
        except BaseException:  # an interrupt too
            give_up(arguments[-1])
            for helper in self._helpers:
                helper.wait()
            raise

    def stay_alone(self) -> None:
        """In a forked process, where there are no helpers."""
        self.__init__()  # type: ignore[misc]
        self._most = 1


THREAD_POOL = ThreadPool()
if hasattr(os, "register_at_fork"):  # not on Windows, which never forks
    os.register_at_fork(after_in_child=THREAD_POOL.stay_alone)
