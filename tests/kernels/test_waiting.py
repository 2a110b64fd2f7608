"""Threads wait in the way that is faster now, and whatever they do, results are the same bits."""

import os
import sys
import time
from collections.abc import Iterator

import pytest
import torch

from chainrule.kernels import waiting
from chainrule.kernels.waiting import BriefWaits, WaitChooser, brief_waits, can_switch, chosen_waits
from chainrule.training.callbacks import Callback
from chainrule.training.context import Budget, TrainingContext
from chainrule.training.trainer import Trainer
from tests.training.trainings import HARD, build, windows

needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="GNU's threads are those of Linux")
CALM, BUSY = {False: 1.0, True: 1.15}, {False: 50.0, True: 1.6}  # seconds of a step by whether waits are brief


class Machine:
    """Time passes by steps alone."""

    def __init__(self, scale: float = 0.02) -> None:
        self.now, self.scale, self.switched = 0.0, scale, 0
        self.chooser = WaitChooser(self._switch, lambda: self.now)

    def _switch(self, is_on: bool) -> None:
        self.switched += 1

    def steps(self, count: int, durations: dict[bool, float]) -> float:
        """Seconds for so many steps, over those of as many in the faster way."""
        began = self.now
        for _ in range(count):
            seconds = durations[self.chooser.is_brief] * self.scale
            self.now += seconds
            self.chooser.note(seconds)
        return (self.now - began) / (count * min(durations.values()) * self.scale)


@pytest.mark.parametrize("scale", [0.001, 0.02, 1.0])
def test_on_an_idle_machine_nearly_all_steps_spin(scale: float) -> None:
    machine = Machine(scale)
    assert machine.steps(1000, CALM) < 1.03
    assert not machine.chooser.is_brief
    assert machine.switched < 200


@pytest.mark.parametrize("scale", [0.001, 0.02, 1.0])
def test_beside_a_busy_program_few_steps_spin(scale: float) -> None:
    machine = Machine(scale)
    assert machine.steps(3000, BUSY) < 1.1
    assert machine.chooser.is_brief


def test_it_changes_when_a_program_comes_and_when_it_goes() -> None:
    machine = Machine()
    machine.steps(500, CALM)
    assert not machine.chooser.is_brief
    machine.steps(8, BUSY)
    assert machine.chooser.is_brief
    machine.steps(500, BUSY)
    machine.steps(3000, CALM)
    assert not machine.chooser.is_brief


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
            with chosen_waits() as chooser, brief_waits():
                assert chooser is None
    torch.set_num_threads(1)
    assert not can_switch()


@needs_linux
@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("architecture", ["lstm", "transformer"])
def test_weights_are_the_same_bits_however_threads_wait(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for always in (True, False):
        with monkeypatch.context() as patch:
            patch.setattr(WaitChooser, "note", lambda self, seconds, always=always: self._switch(always))
            model = build(architecture)
            Trainer(model, HARD, TrainingContext(windows(HARD), Budget(steps=HARD.steps)), Callback(), None).run()
            found.append(model.state_dict())
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
