"""Threads wait in the way that is faster now, and whatever they do, results are the same bits."""

import os
import sys
import time
from collections.abc import Iterator

import pytest
import torch

from chainrule.kernels import waiting
from chainrule.kernels.waiting import BriefWaits, Neighbours, can_switch, considerate_waits
from chainrule.training.callbacks import Callback
from chainrule.training.context import Budget, TrainingContext
from chainrule.training.trainer import Trainer
from tests.training.trainings import HARD, build, windows

needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="GNU's threads are those of Linux")


@needs_linux
def test_busy_neighbours_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two processors: what others have is what the system counts."""
    counted = {"seconds": 0.0, "others": 0.0}
    monkeypatch.setattr(waiting.Neighbours, "_look", lambda self: (counted["seconds"], counted["others"]))
    monkeypatch.setattr(waiting.os, "cpu_count", lambda: 2)
    neighbours = waiting.Neighbours(threads=2)
    for seconds, others, expected in ((1.0, 0.1, False), (1.0, 0.9, True), (0.2, 0.1, True), (1.0, 0.2, False)):
        counted["seconds"] += seconds
        counted["others"] += others
        assert neighbours.are_busy() == expected
    neighbours = waiting.Neighbours(threads=1)
    counted["seconds"], counted["others"] = counted["seconds"] + 1.0, counted["others"] + 0.9
    assert not neighbours.are_busy()  # they have the other processor


@needs_linux
def test_what_this_process_takes_is_not_taken_by_others() -> None:
    (began, before), until = waiting.Neighbours(2)._look(), time.process_time() + 0.5
    while time.process_time() < until:
        pass
    ended, after = waiting.Neighbours(2)._look()
    assert after - before < (ended - began) * (os.cpu_count() or 1) - 0.5 + 0.05


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in waiting.CHOICES:
        monkeypatch.delenv(name, raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def count_threads() -> int:
    return len(os.listdir("/proc/self/task"))


@needs_linux
@pytest.mark.usefixtures("two_threads")
def test_while_it_is_on_there_are_more_threads_than_processors() -> None:
    torch.ones(1 << 20).add_(1)  # the team that computes
    before, waits = count_threads(), BriefWaits()
    waits.switch(True)
    team = max(len(os.sched_getaffinity(0)), 2)
    assert count_threads() - before == team  # with ours: one more than the processors, and the sleeping thread
    assert torch.get_num_threads() == 2
    waits.switch(True)
    assert count_threads() - before == team
    waits.switch(False)
    until = time.monotonic() + 10
    while count_threads() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert count_threads() == before
    assert torch.get_num_threads() == 2


@needs_linux
@pytest.mark.usefixtures("two_threads")
def test_what_the_user_chose_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    assert can_switch()
    for name, value in (("OMP_WAIT_POLICY", "ACTIVE"), ("GOMP_SPINCOUNT", "7")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert not can_switch()
            before = count_threads()
            with considerate_waits():
                assert count_threads() == before
    torch.set_num_threads(1)
    assert not can_switch()


@needs_linux
@pytest.mark.usefixtures("two_threads")
def test_waits_follow_the_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brief at first, then as the others are: idle, busy, idle; and as usual in the end."""
    answers, switched = iter([False, True, True, False]), []
    monkeypatch.setattr(Neighbours, "are_busy", lambda self: next(answers, False))
    monkeypatch.setattr(BriefWaits, "switch", lambda self, is_on: switched.append(is_on))
    monkeypatch.setattr(waiting, "LOOKED_AGAIN", 0.001)
    with considerate_waits():
        until = time.monotonic() + 10
        while len(switched) < 6 and time.monotonic() < until:
            time.sleep(0.001)
    assert switched[:5] == [True, False, True, True, False]
    assert switched[-1] is False


@needs_linux
@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("architecture", ["lstm", "transformer"])
def test_weights_are_the_same_bits_however_threads_wait(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for always in (True, False):
        monkeypatch.setattr(Neighbours, "are_busy", lambda self, always=always: always)
        monkeypatch.setattr(waiting, "LOOKED_AGAIN", 0.001)
        model = build(architecture)
        Trainer(model, HARD, TrainingContext(windows(HARD), Budget(steps=HARD.steps)), Callback(), None).run()
        found.append(model.state_dict())
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
