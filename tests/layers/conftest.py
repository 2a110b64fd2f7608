"""Kernels on so many threads, whatever there are here and whichever number is faster."""

from collections.abc import Callable

import pytest

from chainrule.layers import block_step, crew, linear


@pytest.fixture
def use_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], crew.Crew]:
    """use_threads(2): from now on two."""

    def use(count: int) -> crew.Crew:
        mine = crew.Crew()
        mine._most = count
        monkeypatch.setattr(crew._Pace, "choose", lambda self, most: most)
        for module in (linear, block_step):
            monkeypatch.setattr(module, "CREW", mine)
        return mine

    return use


@pytest.fixture(params=[1, 2, 3], ids="{} threads".format)
def threads(request: pytest.FixtureRequest, use_threads: Callable[[int], crew.Crew]) -> int:
    use_threads(request.param)
    count: int = request.param
    return count
