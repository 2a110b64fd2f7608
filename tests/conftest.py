"""Test runs write nowhere but under tmp_path; kernels run on as many threads as a test asks for."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from chainrule.kernels.thread_pool import ThreadPool


@pytest.fixture(autouse=True)
def _inside_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Default run folders go to ./runs: let that be a place of the test's own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def use_threads(monkeypatch: pytest.MonkeyPatch) -> "Callable[[int], ThreadPool]":
    """use_threads(2): from now on kernels run on two threads, however many cores there are and whatever is faster."""
    from chainrule.kernels import thread_pool
    from chainrule.layers import block_step, linear, training_kernels

    def use(count: int) -> "ThreadPool":
        mine = thread_pool.ThreadPool()
        mine._most = count
        monkeypatch.setattr(thread_pool._Timings, "choose", lambda self, most: most)
        for module in (linear, block_step, training_kernels):
            monkeypatch.setattr(module, "THREAD_POOL", mine)
        return mine

    return use
