"""Small trainings in this process: every neural family, with all that makes resuming hard switched on."""

import signal
from collections.abc import Callable, Collection
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from chainrule import registry
from chainrule.data.batches import Ring, StreamBatches
from chainrule.errors import Stopped
from chainrule.models._neural import NeuralModel
from chainrule.training.callbacks import Callback, CallbackList, Record
from chainrule.training.checkpoint import Checkpoints
from chainrule.training.context import Budget, TrainingContext
from chainrule.training.journal import Journal
from chainrule.training.recipe import Recipe
from chainrule.training.trainer import Trainer

VOCABULARY, EOS = 11, 10
FAMILIES = ("elman", "ugrnn", "gru", "lstm", "mlp", "bow", "attention", "transformer")
HARD = Recipe(
    batch_size=5, micro_batches=2, window=8, chain=3, ema=0.9, evaluations=4, weight_decay=0.01, warmup=0.2, steps=14
)


def stream(seed: int, documents: int = 12) -> np.ndarray:
    """eos d1 eos d2 ... eos, with some structure."""
    generator = np.random.default_rng(seed)
    parts = [np.array([EOS])]
    for _ in range(documents):
        parts += [np.cumsum(generator.integers(0, 3, generator.integers(1, 14))) % EOS, np.array([EOS])]
    return np.concatenate(parts).astype(np.uint16)


def build(architecture: str, dropout: float = 0.1) -> NeuralModel:
    module = registry.find("chainrule.models", architecture, "model")
    config = module.SIZES["tiny"]
    named = {field.name: dropout for field in fields(config) if "dropout" in field.name}
    torch.manual_seed(7)
    return module.Model(replace(config, **named), VOCABULARY, EOS)


def windows(recipe: Recipe, streams: Collection[np.ndarray] | None = None) -> StreamBatches:
    """Of two sources, 3 to 1, unless told otherwise."""
    rings = [Ring([each]) for each in streams or (stream(1), stream(2, 7))]
    return StreamBatches(rings, [3.0, 1.0][: len(rings)], recipe.batch_size, recipe.window, recipe.chain, recipe.seed)


class StopAt(Callback):
    """Presses Ctrl-C once a step is done."""

    def __init__(self, step: int | None):
        self.at = step

    def step(self, record: Record) -> None:
        if record["step"] == self.at:
            signal.raise_signal(signal.SIGINT)

    def message(self, text: str) -> None:
        pass


class Clock:
    """A second goes by whenever it is looked at."""

    def __init__(self, now: float = 0.0):
        self.now = now

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


class Log(Journal):
    def message(self, text: str) -> None:
        pass


def go_on(
    folder: Path, architecture: str, recipe: Recipe, stop_at: int | None = None, **context: Any
) -> tuple[Trainer, list[str]]:
    """What `learn` does in a run folder: from the newest checkpoint, if any, to the end or until `stop_at`."""
    folder.mkdir(exist_ok=True)
    model, checkpoints, log = build(architecture), Checkpoints(folder), Log(folder / "metrics.jsonl")
    newest = checkpoints.load()
    log.rewind(int(newest.facts["step"]) if newest else -1)
    settings = {"batches": windows(recipe), "budget": Budget(steps=recipe.steps), "validation": stream(3)} | context
    with CallbackList(log, StopAt(stop_at)) as callbacks:
        trainer = Trainer(model, recipe, TrainingContext(**settings), callbacks, checkpoints)
        if newest:
            trainer.load(newest)
        trainer.run()
    return trainer, checkpoints.notes


def train_with_stops(
    folder: Path,
    architecture: str,
    recipe: Recipe,
    stops: Collection[int],
    context: Callable[[], dict[str, Any]] = dict,
) -> Trainer:
    for step in stops:
        with pytest.raises(Stopped, match=f"stopped after step {step}$"):
            go_on(folder, architecture, recipe, step, **context())
    return go_on(folder, architecture, recipe, **context())[0]


def without_times(events: Collection[Record]) -> list[Record]:
    """What a resumed journal must have in common with one that was never interrupted."""
    of_this_machine = {"seconds", "tokens_per_second", "memory_bytes"}
    return [{key: value for key, value in event.items() if key not in of_this_machine} for event in events]


def assert_same_tensors(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name


def assert_same_events(ours: Collection[Record], theirs: Collection[Record]) -> None:
    """Apart from times. Looks are compared as numbers: the last bits of a product may depend on where it is made."""
    ours, theirs = without_times(ours), without_times(theirs)
    assert [_without_looks(event) for event in ours] == [_without_looks(event) for event in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        for look, expected in zip(mine.get("contexts", ()), other.get("contexts", ()), strict=True):
            assert (look["context"], look["token"]) == (expected["context"], expected["token"])
            assert look["probability"] == pytest.approx(expected["probability"], rel=1e-3)
            assert dict(look["top"]) == pytest.approx(dict(expected["top"]), rel=1e-3)


def _without_looks(event: Record) -> Record:
    return {name: value for name, value in event.items() if name != "contexts"}
