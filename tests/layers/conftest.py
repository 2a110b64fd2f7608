"""Layers that use kernels are tested on one, two and three threads."""

from collections.abc import Callable

import pytest

from chainrule.kernels.thread_pool import ThreadPool


@pytest.fixture(params=[1, 2, 3], ids="{} threads".format)
def threads(request: pytest.FixtureRequest, use_threads: Callable[[int], ThreadPool]) -> int:
    use_threads(request.param)
    count: int = request.param
    return count
