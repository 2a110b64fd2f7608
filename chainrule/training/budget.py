"""What to train in the time there is: a few seconds of measuring this machine, then size, batch, context and rates."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from chainrule.data.shards import TokenShards
from chainrule.data.windows import Ring, Windows
from chainrule.models._neural import NeuralModel
from chainrule.models.base import Batch
from chainrule.training.optimizer import Optimizer
from chainrule.training.prepare import Prepared
from chainrule.training.recipe import Recipe

MEASURED_PART = 0.03  # of the budget, at the most, is spent on measuring
LONGEST_MEASUREMENT = 6.0
WRITING_SECONDS = 1.5  # plots, hashes and the model card


@dataclass(frozen=True)
class Speed:
    """Tokens a second of one model on this machine."""

    training: float
    scoring: float


@dataclass(frozen=True)
class Choice:
    config: Any
    recipe: Recipe
    why: list[str]
    seconds_left: Callable[[], float] | None = None  # for the loop, once everything else is paid for


def choose(
    architecture: str,
    module: Any,
    config: Any,
    recipe: Recipe,
    asked: Mapping[str, Any],
    is_sized: bool,
    size: str,
    shards: TokenShards,
    prepared: Prepared,
    started_at: float,
) -> Choice:
    """A configuration that was asked for stays; the rest follows from the time, the text and the machine."""
    why: list[str] = []
    if recipe.minutes is None:
        return Choice(config, recipe, why)
    total = recipe.minutes * 60
    if not is_sized and hasattr(module, "for_budget"):
        config, changes, why = module.for_budget(total, shards.part.tokens, prepared.tokenizer.vocabulary_size)
        recipe = replace(recipe, **{**changes, **{name: getattr(recipe, name) for name in asked}})
    speed = measure(module, config, recipe, shards, prepared, min(total * MEASURED_PART, LONGEST_MEASUREMENT))
    held_out = prepared.parts["validation"].tokens
    recipe = replace(recipe, evaluation_tokens=_affordable(total, recipe, speed, held_out))
    after = held_out / speed.scoring + WRITING_SECONDS
    why.append(f"this machine trains such a model at {speed.training:,.0f} tokens/s")

    def seconds_left() -> float:
        return max(total - (time.time() - started_at) - after, 0.1 * total)

    return Choice(config, recipe, why, seconds_left)


def _affordable(total: float, recipe: Recipe, speed: Speed, held_out: int) -> int:
    """So many tokens that all evaluations before the end cost a twentieth of the time."""
    tokens = int(0.05 * total * speed.scoring / recipe.evaluations)
    return max(min(tokens, held_out), 1024)


def measure(
    module: Any, config: Any, recipe: Recipe, shards: TokenShards, prepared: Prepared, seconds: float
) -> Speed:
    """Steps and scores of a model that is then thrown away, for about so many seconds."""
    tokenizer = prepared.tokenizer
    torch.manual_seed(0)
    model: NeuralModel = module.Model(config, tokenizer.vocabulary_size, tokenizer.eos)
    windows = Windows([Ring([shards.tokens(0)])], [1.0], recipe.batch_size, recipe.window)
    optimizer = Optimizer(model, recipe)
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - began < seconds * 0.7:
        window = windows.window(len(times))
        at = time.perf_counter()
        batch = Batch(torch.from_numpy(window.inputs), torch.from_numpy(window.targets))
        state = model.start(recipe.batch_size) if model.carries_state else None
        loss, _ = model.advance(batch, state)
        (loss.total / loss.count).backward()
        optimizer.step(1.0)
        times.append(time.perf_counter() - at)
        if time.perf_counter() - began > seconds:
            break
    scored = shards.tokens(0)[: max(2 * recipe.window, 1024)]
    at = time.perf_counter()
    model.score(scored)
    scoring = (len(scored) - 1) / (time.perf_counter() - at)
    return Speed(windows.tokens_per_step / sorted(times)[len(times) // 2], scoring)


