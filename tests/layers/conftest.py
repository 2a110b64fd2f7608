"""Kernels on so many threads, whatever there are here and whichever number is faster."""

from collections.abc import Callable

import pytest

from chainrule.kernels import thread_pool
from chainrule.layers import block_step, linear


@pytest.fixture
def use_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], thread_pool.ThreadPool]:
    """use_threads(2): from now on two."""

    def use(count: int) -> thread_pool.ThreadPool:
        mine = thread_pool.ThreadPool()
        mine._most = count
        monkeypatch.setattr(thread_pool._Pace, "choose", lambda self, most: most)
        for module in (linear, block_step):
            monkeypatch.setattr(module, "THREAD_POOL", mine)
        return mine

    return use


@pytest.fixture(params=[1, 2, 3], ids="{} threads".format)
def threads(request: pytest.FixtureRequest, use_threads: Callable[[int], thread_pool.ThreadPool]) -> int:
    use_threads(request.param)
    count: int = request.param
    return count
