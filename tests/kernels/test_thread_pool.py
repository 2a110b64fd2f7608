"""Threads that run one kernel together: whatever happens to one of them, nobody waits for ever."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from chainrule.kernels import thread_pool
from chainrule.kernels.atomic import BARRIER, BETWEEN, wait_for_all


@numba.njit(nogil=True)
def meet(counters, threads):
    for _ in range(1000):
        wait_for_all(counters, 0, threads)


def run(mine: thread_pool.ThreadPool, kernel: Callable[..., None]) -> list[BaseException]:
    """What the pool's caller is told, if it hears anything in the end."""
    told: list[BaseException] = []

    def call() -> None:
        try:
            mine.run("work", kernel, np.zeros(BARRIER * BETWEEN, np.int64))
        except BaseException as error:
            told.append(error)

    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    caller.join(60)
    assert not caller.is_alive(), "somebody waits for ever"
    return told


def test_the_faster_way_is_kept_to_and_the_other_tried_again():
    timings = thread_pool._Timings()
    asked = []
    seconds = {1: 3.0, 2: 5.0}
    for _ in range(6 + 7 * thread_pool.TRIED_AGAIN):
        threads = timings.choose(2)
        asked.append(threads)
        timings.note(threads, seconds[threads])
    assert sorted(asked[:6]) == [1, 1, 1, 2, 2, 2]
    tried = [at + 1 for at, threads in enumerate(asked[6:]) if threads == 2]
    assert tried == [
        thread_pool.TRIED_AGAIN,
        3 * thread_pool.TRIED_AGAIN,
        7 * thread_pool.TRIED_AGAIN,
    ]
    seconds[2] = 1.0
    for _ in range(thread_pool.TRIED_SELDOM + thread_pool.TRIED_AGAIN):
        asked.append(timings.choose(2))
        timings.note(asked[-1], seconds[asked[-1]])
    assert asked[-10:].count(2) >= 9  # now it is the faster one


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_what_goes_wrong_in_one_thread_ends_all_and_is_told_to_the_caller(failing: int, use_threads):
    mine, came = use_threads(3), []

    def kernel(counters: np.ndarray, thread: int, threads: int) -> None:
        if thread == failing and is_scarce:
            raise MemoryError("none left")
        meet(counters, threads)
        came.append(thread)

    for is_scarce in (False, True, False, True, False):
        came.clear()
        told = run(mine, kernel)
        assert [str(each) for each in told] == ["none left"] * is_scarce
        mine._workers[0].wait()
        mine._workers[1].wait()
        assert set(came) >= {0, 1, 2} - {failing} and (failing in came) is not is_scarce


@pytest.mark.parametrize("moment", ["before one has begun", "after it has", "after all"])
def test_an_interrupt_leaves_nobody_waiting(moment: str, use_threads, monkeypatch):
    mine, came = use_threads(3), []
    begin = thread_pool._Worker.begin
    interrupts = iter([True])

    def kernel(counters: np.ndarray, thread: int, threads: int) -> None:
        meet(counters, threads)
        came.append(thread)
        if thread == 0 and moment == "after all" and next(interrupts, False):
            raise KeyboardInterrupt

    def interrupted(worker: thread_pool._Worker, *task: Any) -> None:
        is_second = worker is mine._workers[1]
        if is_second and moment.startswith("before") and next(interrupts, False):
            raise KeyboardInterrupt
        begin(worker, *task)
        if is_second and moment == "after it has" and next(interrupts, False):
            raise KeyboardInterrupt

    monkeypatch.setattr(thread_pool._Worker, "begin", interrupted)
    assert [type(each) for each in run(mine, kernel)] == [KeyboardInterrupt]
    came.clear()
    assert not run(mine, kernel)
    for worker in mine._workers:
        worker.wait()
    assert sorted(came) == [0, 1, 2]


def test_systems_that_cannot_fork_have_a_thread_pool_too():
    code = (
        "import os, torch, numba; del os.register_at_fork, os.sched_getaffinity, os.sysconf\n"
        "import chainrule.kernels.thread_pool; from chainrule.kernels.machine import _memory; assert _memory() is None"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
