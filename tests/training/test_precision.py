"""Training in bfloat16: chosen by measured times, kept once chosen, and close to training in float32."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import chainrule
from chainrule.api import resume
from chainrule.errors import Diverged, Stopped, UserError
from chainrule.kernels import machine
from chainrule.layers import product
from chainrule.tasks.base import Task
from chainrule.training import budget, precision
from chainrule.training.budget import Speed, choose_speed
from chainrule.training.callbacks import Callback
from chainrule.training.context import Budget, TrainingContext
from chainrule.training.precision import WORTH_ROUNDING, check_precision, note_on_precision
from chainrule.training.recipe import Recipe
from chainrule.training.resolve import Resolved
from chainrule.training.trainer import Trainer
from tests.training.trainings import FAMILIES, VOCABULARY, build, stream, windows

PLAIN = Recipe(batch_size=5, window=8, chain=3, steps=12, optimizer="muon", learning_rate=0.01)


class Machine:
    """A machine on which products, and trainings, are so many times as fast in bfloat16; notes what was tried."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, product: float, training: float = 1.0, workers: float = 0.5):
        self.tried: list[tuple[str, int]] = []
        self.gains = {"float32": 1.0, "bfloat16": training}
        self.workers = workers
        monkeypatch.setattr(precision, "bfloat16_speedup", lambda: product)
        monkeypatch.setattr(budget, "measure", self.measure)
        monkeypatch.setattr(budget, "CAN_FORK", True)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
        monkeypatch.setattr(Task, "batches", lambda self, recipe: None)

    def measure(self, resolved, task, recipe, batches, seconds):
        self.tried.append((recipe.precision, recipe.workers))
        return Speed(1000.0 * self.gains[recipe.precision] * (self.workers if recipe.workers > 1 else 1.0), None)

    def choose(self, recipe: Recipe = PLAIN, **chosen):
        resolved = Resolved(Task, None, "lstm", None, None, replace(recipe, **chosen), chosen)
        return choose_speed(resolved, Task.__new__(Task), 1.0)


@pytest.mark.parametrize(
    ("gain", "chosen", "why"),
    [
        (0.7, "float32", []),
        (1.1, "float32", []),
        (1.62, "bfloat16", ["bfloat16: 1.6 times as fast as float32 here"]),
    ],
)
def test_bfloat16_is_chosen_where_training_is_clearly_faster(monkeypatch, gain, chosen, why):
    recipe, speed, reasons = Machine(monkeypatch, 4.0, gain).choose()
    assert (recipe.precision, reasons) == (chosen, why)
    assert speed.training == 1000 * (gain if chosen == "bfloat16" else 1)
    assert WORTH_ROUNDING == 1.15


def test_it_is_tried_with_the_processes_that_were_faster(monkeypatch):
    found = Machine(monkeypatch, 4.0, 2.0, workers=1.5)
    recipe, speed, _ = found.choose()
    assert (recipe.workers, recipe.precision, speed.training) == (4, "bfloat16", 3000)
    assert found.tried == [("float32", 1), ("float32", 4), ("bfloat16", 4)]


@pytest.mark.parametrize("named", ["float32", "bfloat16"])
def test_a_precision_that_was_named_stays(monkeypatch, named):
    found = Machine(monkeypatch, 4.0, 2.0)
    recipe, _, reasons = found.choose(precision=named)
    assert (recipe.precision, reasons) == (named, [])
    assert {each for each, _ in found.tried} == {named}


@pytest.mark.parametrize("product", [0.01, 0.9])
def test_a_processor_that_multiplies_no_faster_never_tries(monkeypatch, product):
    found = Machine(monkeypatch, product, 2.0)
    assert found.choose()[0].precision == "float32"
    assert {each for each, _ in found.tried} == {"float32"}


def test_the_tape_has_no_bfloat16(monkeypatch):
    found = Machine(monkeypatch, 4.0, 2.0)
    assert found.choose(replace(PLAIN, engine="tape"))[0].precision == "float32"


@pytest.mark.parametrize(
    "error", [RuntimeError("expected m1 and m2 to have the same dtype"), Diverged("the loss is nan")]
)
def test_a_model_that_cannot_be_trained_so_is_trained_in_float32(monkeypatch, error):
    found = Machine(monkeypatch, 4.0, 2.0)

    def measure(resolved, task, recipe, batches, seconds):
        if recipe.precision == "bfloat16":
            raise error
        return found.measure(resolved, task, recipe, batches, seconds)

    monkeypatch.setattr(budget, "measure", measure)
    assert found.choose()[0].precision == "float32"


def test_the_speedup_is_the_ratio_of_the_fastest_products(monkeypatch):
    seconds = {torch.float32: iter([9.0, 4.0, 5.0]), torch.bfloat16: iter([3.0, 2.0, 8.0])}
    clock = [0.0]

    class Matrix:
        def __init__(self, *shape, dtype):
            self.shape, self.dtype = shape, dtype

        def __matmul__(self, other):
            if self.shape == (16, 16):
                clock[0] += next(seconds[self.dtype])

    monkeypatch.setattr(torch, "ones", Matrix)
    monkeypatch.setattr(machine.time, "perf_counter", lambda: clock[0])
    assert machine.bfloat16_speedup.__wrapped__(16, 3) == 2.0


def test_a_slow_processor_refuses_to_begin_and_says_so_when_it_goes_on(monkeypatch):
    monkeypatch.setattr(precision, "bfloat16_speedup", lambda: 0.01)
    with pytest.raises(UserError, match="bfloat16 is 100 times slower than float32 on this processor; leave precision"):
        check_precision("bfloat16")
    check_precision("float32")
    assert note_on_precision("float32") is None
    assert note_on_precision("bfloat16") == (
        "bfloat16 is 100 times slower than float32 on this processor; this training was begun in it on another one "
        "and goes on in it"
    )
    monkeypatch.setattr(precision, "bfloat16_speedup", lambda: 4.0)
    check_precision("bfloat16")
    assert note_on_precision("bfloat16") is None


def test_the_first_step_of_a_trial_does_not_count(monkeypatch):
    """It may take many times as long as the others."""
    clock, durations = [0.0], iter([50.0, 3.0, 1.0, 2.0])
    monkeypatch.setattr(budget.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(Trainer, "step", lambda self: clock.__setitem__(0, clock[0] + next(durations)))
    context = TrainingContext(windows(PLAIN), Budget(steps=9))
    assert budget.seconds_per_step(build("lstm"), PLAIN, context, 55.5) == 2.0


def chooses_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, bfloat16 is timed as three times as fast."""
    monkeypatch.setattr(precision, "bfloat16_speedup", lambda: 4.0)
    true = budget.measure

    def measure(resolved, task, recipe, batches, seconds):
        found = true(resolved, task, recipe, batches, 0.0)
        return Speed(3000.0 if recipe.precision == "bfloat16" else 1000.0, found.model)

    monkeypatch.setattr(budget, "measure", measure)


def test_the_choice_is_recorded_in_the_run(monkeypatch, text):
    chooses_bfloat16(monkeypatch)
    run = chainrule.train(text, tokenizer="characters", model="lstm", minutes=0.02, width=8)
    config = json.loads((Path(run.path) / "config.json").read_text())
    assert config["training"]["recipe"]["precision"] == "bfloat16"
    assert "bfloat16: 3.0 times as fast as float32 here" in config["training"]["why"]


def test_a_resumed_training_keeps_it_on_a_slow_processor(monkeypatch, text, capsys):
    monkeypatch.setattr(precision, "bfloat16_speedup", lambda: 4.0)
    settings = {"tokenizer": "characters", "model": "lstm", "width": 8, "steps": 4, "precision": "bfloat16"}
    step = Trainer.step

    def stopping(self):
        step(self)
        if self.checkpoints and self.position.step == 2:
            self.save()
            raise Stopped("stopped", 130)

    with monkeypatch.context() as stops, pytest.raises(Stopped):
        stops.setattr(Trainer, "step", stopping)
        chainrule.train(text, path="runs/cows", **settings)
    monkeypatch.setattr(precision, "bfloat16_speedup", lambda: 0.01)
    capsys.readouterr()
    run = resume("runs/cows")
    assert run.config["training"]["recipe"]["precision"] == "bfloat16"
    assert "note: bfloat16 is 100 times slower than float32 on this processor" in " ".join(
        "".join(capsys.readouterr()).split()
    )


def losses(architecture: str, recipe: Recipe) -> np.ndarray:
    """Nats per token of every step of a training."""
    found: list[float] = []
    context = TrainingContext(
        windows(recipe), Budget(steps=recipe.steps), counts=np.bincount(stream(1), minlength=VOCABULARY)
    )
    trainer = Trainer(build(architecture, 0.0), recipe, context, Callback(), None)
    trainer._count_epoch = lambda nats, tokens: found.append(nats / tokens)  # type: ignore[method-assign]
    trainer.run()
    assert {each.dtype for each in trainer.model.state_dict().values()} == {torch.float32}
    assert {each.dtype for each in trainer.optimizer.state().values()} == {torch.float32}
    return np.array(found)


SAMPLED = replace(PLAIN, sampled_softmax=1.0, sampled_head=3, sampled_tail=4, micro_batches=2)


@pytest.mark.parametrize("recipe", [PLAIN, SAMPLED])
@pytest.mark.parametrize("architecture", FAMILIES)
def test_every_family_learns_as_in_float32(architecture, recipe):
    """Weights and the state of the optimizer are float32 throughout; losses differ by rounding."""
    exact, rounded = (losses(architecture, replace(recipe, precision=each)) for each in ("float32", "bfloat16"))
    assert rounded == pytest.approx(exact, rel=0.01)
    assert not np.array_equal(rounded, exact)


def test_so_does_a_large_vocabulary(monkeypatch):
    """Whose softmax is made a few rows at a time."""
    monkeypatch.setattr("chainrule.models._neural.LARGE_VOCABULARY", 2)
    exact, rounded = (losses("lstm", replace(PLAIN, precision=each)) for each in ("float32", "bfloat16"))
    assert rounded == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("architecture", ["transformer", "attention", "mlp", "lstm"])
def test_products_by_onednn_learn_as_those_of_torch(architecture, monkeypatch):
    """Both are in float32, and differ in the order of their sums."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("torch was built without oneDNN")
    monkeypatch.setattr(product, "SMALL", 0)
    found = []
    for speedup in (0.0, 2.0):
        monkeypatch.setattr(product, "onednn_speedup", lambda speedup=speedup: speedup)
        found.append(losses(architecture, PLAIN))
    assert found[1] == pytest.approx(found[0], rel=1e-4)
