"""A thread pool whose threads run one kernel together.

Two threads are up to twice as fast as one, but only while the second core is free: if it is busy, the first thread
waits for the second, again and again. So both ways are timed as they are used, and the faster one is preferred. The
results are the same bits.
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

SAMPLES = 3  # the shortest of the latest durations counts: whatever disturbs a measurement makes it longer
# The slower way is tried again after so many calls; after twice as many each time that it is still slower.
TRIED_AGAIN, TRIED_SELDOM = 32, 256

Kernel = Callable[..., None]  # its last two arguments: the index of this thread, and the number of threads


class _Worker:
    """A thread that runs the tasks it is given, one after the other."""

    def __init__(self) -> None:
        self._given: SimpleQueue[Callable[[], None]] = SimpleQueue()
        Thread(target=self._serve, daemon=True).start()

    def begin(self, task: Callable[[], None]) -> None:
        """Queue a task, which must not raise anything."""
        self._given.put(task)

    def wait(self) -> None:
        """Wait until all tasks are done."""
        over = Lock()
        over.acquire()
        self._given.put(over.release)
        over.acquire()

    def _serve(self) -> None:
        while True:
            self._given.get()()


class _Timings:
    """How long one piece of work took with all threads and with one."""

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
        self._workers: list[_Worker] = []
        self._most = min(torch.get_num_threads(), CORES)  # OMP_NUM_THREADS counts here too
        self._one_at_a_time = Lock()
        self._timings: dict[Hashable, _Timings] = defaultdict(_Timings)

    def run(self, work: Hashable, kernel: Kernel, *arguments: object) -> None:
        """Run kernel(*arguments, thread, threads) on all threads, or on the calling one alone where that is faster.

        The last of the arguments are counters for `atomic.claim` that end with those of a barrier; the kernel must end
        with `wait_for_all` at this barrier. `work` identifies the piece of work whose timings are compared.
        """
        if self._most == 1:
            kernel(*arguments, 0, 1)
            return
        with self._one_at_a_time:
            timings = self._timings[work]
            threads = timings.choose(self._most)
            began = perf_counter()
            while len(self._workers) < threads - 1:
                self._workers.append(_Worker())
            self._run(kernel, arguments, threads)
            timings.note(threads, perf_counter() - began)

    def _run(self, kernel: Kernel, arguments: tuple[Any, ...], threads: int) -> None:
        """An error in one thread lets the others leave the barrier, and is raised here once all have ended."""
        errors: list[BaseException] = []

        def help(number: int) -> None:
            try:
                kernel(*arguments, number, threads)
            except BaseException as error:
                errors.append(error)
                give_up(arguments[-1])

        try:
            for number in range(1, threads):
                self._workers[number - 1].begin(partial(help, number))
            kernel(*arguments, 0, threads)
            if errors:
                raise errors[0]
        except BaseException:  # an interrupt too
            give_up(arguments[-1])
            for worker in self._workers:
                worker.wait()
            raise

    def stay_alone(self) -> None:
        """Use one thread only: in a forked process, which has none of the others."""
        self.__init__()  # type: ignore[misc]
        self._most = 1


THREAD_POOL = ThreadPool()
if hasattr(os, "register_at_fork"):  # not on Windows, which never forks
    os.register_at_fork(after_in_child=THREAD_POOL.stay_alone)
