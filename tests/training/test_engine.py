"""Training on the tape: the same loop, the same weights as with torch, and from one to the other in the middle."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import chainrule
from chainrule import registry
from chainrule.errors import Stopped, UserError
from chainrule.tape.models import MODELS
from chainrule.training.callbacks import CallbackList
from chainrule.training.context import Budget, TrainingContext
from chainrule.training.engine import check_engine
from chainrule.training.pipeline import resume
from chainrule.training.recipe import Recipe
from chainrule.training.trainer import Trainer
from tests.training.trainings import EOS, HARD, VOCABULARY, assert_same_tensors, go_on, train_with_stops, windows

PLAIN = Recipe(batch_size=5, window=8, chain=3, steps=8, optimizer="sgd", learning_rate=0.3, micro_batches=2)


def trained(architecture: str, engine: str) -> Trainer:
    module = registry.find("chainrule.models", architecture, "model")
    config = module.SIZES["gpt2-tiny" if architecture == "transformer" else "tiny"]
    torch.manual_seed(7)
    recipe = replace(PLAIN, engine=engine)
    context = TrainingContext(windows(recipe), Budget(steps=recipe.steps))
    trainer = Trainer(module.Model(config, VOCABULARY, EOS), recipe, context, CallbackList(), None)
    trainer.run()
    return trainer


@pytest.mark.parametrize("architecture", MODELS)
def test_both_engines_train_the_same_weights(architecture):
    by_torch, by_tape = (trained(architecture, engine) for engine in ("torch", "tape"))
    for (name, mine), other in zip(by_tape.model.named_parameters(), by_torch.model.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6, msg=name)
    assert by_tape.position.epoch_nats == pytest.approx(by_torch.position.epoch_nats, rel=1e-4)


@pytest.mark.parametrize("architecture", ["mlp", "lstm"])
def test_a_stopped_training_on_the_tape_goes_on_exactly(architecture, tmp_path):
    """With dropout, averages of weights and micro-batches."""
    recipe = replace(HARD, engine="tape")
    whole, _ = go_on(tmp_path / "whole", architecture, recipe)
    again = train_with_stops(tmp_path / "stopped", architecture, recipe, [3, 8])
    assert_same_tensors(whole.model.state_dict(), again.model.state_dict())


@pytest.fixture
def names(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    lines = ["".join(generator.choice(list("abcdef"), generator.integers(2, 8))) for _ in range(200)]
    Path("names.txt").write_text("\n".join(lines))
    return Path("names.txt")


SETTINGS = {
    "model": "elman",
    "size": "tiny",
    "tokenizer": "characters",
    "unit": "line",
    "optimizer": "adamw",
    "window": 16,
}


def test_a_run_of_the_tape_is_a_run_like_any_other(names):
    run = chainrule.train(names, **SETTINGS, engine="tape", steps=20)
    assert run.config["training"]["recipe"]["engine"] == "tape"
    assert run.sample(max_tokens=20, seed=1) == run.sample(max_tokens=20, seed=1)
    assert run.evaluate(names)["tokens"] > 0
    by_torch = chainrule.train(names, **SETTINGS, engine="torch", steps=20, path="runs/torch")
    losses = [each.metrics[-1]["validation"]["loss"] for each in (run, by_torch)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_a_training_goes_on_with_the_other_engine_and_back(names, monkeypatch):
    whole = chainrule.train(names, **SETTINGS, steps=30, path="runs/whole")
    step = Trainer.step

    def stop_at(limit: int) -> None:
        def stopping(trainer: Trainer) -> None:
            step(trainer)
            if trainer.position.step == limit:
                trainer.save()
                raise Stopped("stopped", 130)

        monkeypatch.setattr(Trainer, "step", stopping)

    stop_at(10)
    with pytest.raises(Stopped):
        chainrule.train(names, **SETTINGS, steps=30, path="runs/mixed")
    stop_at(20)
    with pytest.raises(Stopped):
        resume("runs/mixed", {"engine": "tape"})
    monkeypatch.setattr(Trainer, "step", step)
    mixed = resume("runs/mixed", {"engine": "torch"})
    theirs, mine = (each.metrics[-1]["validation"]["loss"] for each in (whole, mixed))
    assert mine == pytest.approx(theirs, rel=1e-3)
    assert mixed.metrics[-1]["steps"] == 30


@pytest.mark.parametrize(
    ("engine", "architecture", "sentence"),
    [
        ("jax", "elman", "engine must be one of torch, tape, got 'jax'"),
        ("tape", "attention", "the engine tape has no attention"),
        ("tape", "transformer", "on the tape ngram_order must be 0, got 2; set ngram_order=0"),
    ],
)
def test_what_no_engine_can_do_is_refused(engine, architecture, sentence):
    config = registry.find("chainrule.models", architecture, "model").SIZES["tiny"]
    with pytest.raises(UserError, match=sentence):
        check_engine(engine, architecture, config)
