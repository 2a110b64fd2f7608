"""Threads go by the work of a step."""

import threading

import pytest
import torch

from chainrule.kernels import threads


def used(rows: int, parameters: int) -> int:
    """In a thread of its own, as torch counts them for each."""
    found = []

    def work() -> None:
        threads.use_threads(Sized(parameters), rows)
        found.append(torch.get_num_threads())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]


class Sized:
    def __init__(self, parameters: int):
        self.num_parameters = parameters


@pytest.fixture(autouse=True)
def _as_before():
    before = torch.get_num_threads()
    threads._most_threads.cache_clear()
    yield
    torch.set_num_threads(before)
    threads._most_threads.cache_clear()


def test_small_steps_take_one_thread_and_large_ones_all():
    torch.set_num_threads(2)
    assert threads._most_threads() == 2
    assert used(rows=1, parameters=1_000_000) == 1
    assert used(rows=64, parameters=1_000_000) == 1
    assert used(rows=16, parameters=100_000_000) == 2


def test_one_thread_stays_one():
    torch.set_num_threads(1)
    assert threads._most_threads() == 1
    assert used(rows=64, parameters=100_000_000) == 1
