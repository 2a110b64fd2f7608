"""Several processes, one training: the same gradients as of one process, the same every time, and none left behind."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from chainrule.errors import UserError
from chainrule.tasks.base import Task
from chainrule.training import worker_pool
from chainrule.training.budget import WORTH_FORKING, Speed, choose_speed
from chainrule.training.callbacks import CallbackList
from chainrule.training.context import Budget, TrainingContext
from chainrule.training.recipe import Recipe
from chainrule.training.resolve import Resolved
from chainrule.training.trainer import Trainer
from chainrule.training.worker_pool import CAN_FORK, check_workers, shared
from tests.training.processes import Commands, steps_journalled, until
from tests.training.trainings import FAMILIES, HARD, assert_same_tensors, build, go_on, train_with_stops, windows

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="this system cannot fork")
PLAIN = Recipe(batch_size=5, window=8, chain=3, steps=6, optimizer="sgd", learning_rate=0.1)


def trained(architecture: str, recipe: Recipe, dropout: float = 0.0) -> Trainer:
    model = build(architecture, dropout)
    context = TrainingContext(windows(recipe), Budget(steps=recipe.steps))
    trainer = Trainer(model, recipe, context, CallbackList(), None)
    trainer.run()
    return trainer


def children() -> set[str]:
    return {each for task in Path("/proc/self/task").iterdir() for each in (task / "children").read_text().split()}


@pytest.mark.parametrize("workers", [2, 3, 9])
@pytest.mark.parametrize("architecture", FAMILIES)
def test_several_processes_learn_what_one_does(architecture, workers):
    """Five rows are no multiple of two, and fewer than nine. A Transformer's table has a sparse gradient."""
    alone, together = (trained(architecture, replace(PLAIN, workers=count)) for count in (1, workers))
    for (name, mine), other in zip(together.model.named_parameters(), alone.model.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=2e-4, atol=2e-6, msg=name)
    assert together.position.epoch_nats == pytest.approx(alone.position.epoch_nats, rel=1e-5)


def test_processes_do_not_drop_out_the_same():
    """Of the same rows, read as two processes would, the losses differ; without dropout they do not."""
    for dropout in (0.5, 0.0):
        recipe = replace(PLAIN, workers=2)
        model = build("mlp", dropout).train()
        trainer = Trainer(model, recipe, TrainingContext(windows(recipe), Budget(steps=1)), CallbackList(), None)
        trainer._rows = lambda rank: torch.arange(2)  # type: ignore[method-assign]
        nats = [trainer._read(rank, 0, 0.0)[0] for rank in (0, 1, 1)]
        assert (nats[0] == nats[1]) is (dropout == 0)
        assert nats[1] == nats[2]


@pytest.mark.parametrize("architecture", FAMILIES)
def test_a_training_of_several_processes_is_the_same_every_time_stopped_or_not(architecture, tmp_path):
    """With dropout, averages of weights, micro-batches and states of recurrent models."""
    recipe = replace(HARD, workers=2)
    whole, _ = go_on(tmp_path / "whole", architecture, recipe)
    again = train_with_stops(tmp_path / "stopped", architecture, recipe, [3, 8])
    assert_same_tensors(whole.model.state_dict(), again.model.state_dict())


def test_processes_end_with_the_training():
    before = children()
    trained("gru", replace(PLAIN, workers=3))
    assert children() == before


def test_a_process_that_is_killed_ends_the_training_with_a_sentence():
    recipe = replace(PLAIN, workers=2, steps=1000)
    trainer = Trainer(build("mlp"), recipe, TrainingContext(windows(recipe), Budget(steps=1000)), CallbackList(), None)
    with trainer.workers_running():
        trainer.step()
        assert trainer._workers is not None
        os.kill(trainer._workers._ids[0], signal.SIGKILL)
        with pytest.raises(UserError, match="a process of the training was killed"):
            for _ in range(3):
                trainer.step()


def test_what_fails_in_a_process_is_told(monkeypatch):
    recipe = replace(PLAIN, workers=2)
    trainer = Trainer(build("mlp"), recipe, TrainingContext(windows(recipe), Budget(steps=6)), CallbackList(), None)
    gradient, here = trainer._gradient, os.getpid()

    def fail(*arguments):
        if os.getpid() != here:
            raise ValueError("out of cheese")
        return gradient(*arguments)

    monkeypatch.setattr(trainer, "_gradient", fail)
    with pytest.raises(RuntimeError, match="out of cheese"):
        trainer.run()


@pytest.mark.slow
def test_after_a_kill_the_next_one_may_go_on_at_once(commands: Commands, text):
    """No process that was left behind keeps the lock of the folder."""
    request = (
        "train",
        "cows.txt",
        "--model",
        "gru",
        "--size",
        "tiny",
        "--tokenizer",
        "characters",
        "--as",
        "runs/cows",
    )
    process = commands.start(*request, "--steps", 120, "--set", "workers=2", "--set", "checkpoint_seconds=0")
    until(lambda: steps_journalled(Path("runs/cows")) >= 5)
    process.send(signal.SIGKILL)
    process.wait()
    code, said = commands.run("train", "--resume", "runs/cows", "--set", "workers=2")
    assert code == 0, said


def test_shared_memory_has_the_same_numbers():
    for tensor in (torch.randn(3, 4), torch.arange(5)):
        assert torch.equal(shared(tensor), tensor)
        assert shared(tensor).dtype == tensor.dtype


def test_where_processes_cannot_be_forked_they_are_refused(monkeypatch):
    monkeypatch.setattr(worker_pool, "CAN_FORK", False)
    check_workers(1)
    with pytest.raises(UserError, match="workers must be 1 on this system"):
        check_workers(2)


@pytest.mark.parametrize(("gain", "workers"), [(0.8, 1), (1.01, 1), (1.3, 4)])
def test_several_processes_are_chosen_where_they_are_faster(monkeypatch, gain, workers):
    def measure(resolved, task, recipe, batches, seconds):
        return Speed(1000.0 * (gain if recipe.workers > 1 else 1), None)

    def resolved(**chosen):
        return Resolved(Task, None, "lstm", None, None, PLAIN, chosen)

    monkeypatch.setattr("chainrule.training.budget.measure", measure)
    monkeypatch.setattr(Task, "batches", lambda self, recipe: None)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr("chainrule.training.budget.is_worth_trying", lambda: False)
    recipe, speed, _ = choose_speed(resolved(), Task.__new__(Task), 1.0)
    assert recipe.workers == workers
    assert speed.training == 1000 * (gain if workers > 1 else 1)
    assert choose_speed(resolved(workers=1), Task.__new__(Task), 1.0)[0].workers == 1
    assert WORTH_FORKING > 1
