"""What to train in the time there is: a few seconds of measuring this machine, then size, batch, context and rates.

An architecture says by itself, in `for_budget`, what suits so much time; here the time is made comparable between
machines, and paid out: reading, measuring, training, evaluating and writing all count.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from chainrule.data.shards import TokenShards
from chainrule.data.windows import Ring, Windows
from chainrule.models._neural import NeuralModel
from chainrule.models.base import Batch
from chainrule.planning.machines import measure_this_machine
from chainrule.text.base import Tokenizer
from chainrule.training.optimizer import Optimizer
from chainrule.training.recipe import Recipe

REFERENCE_SPEED = 165e9  # multiplications and additions a second, of the two cores that the sizes were chosen on
MEASURED_PART = 0.02  # of the budget, at the most, is spent on measuring
LONGEST_MEASUREMENT = 5.0
EVALUATED_PART = 0.04  # of the budget goes to evaluations before the end
WRITING_SECONDS = 1.0  # plots, hashes and the model card


@dataclass(frozen=True)
class Text:
    """What there is to train on and to measure with."""

    shards: TokenShards
    held_out_tokens: int
    tokenizer: Tokenizer


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


def choose(module: Any, config: Any, recipe: Recipe, asked: Mapping[str, Any], is_sized: bool, text: Text) -> Choice:
    """For a recipe in minutes. What was asked for stays; the rest follows from the time, the text and the machine."""
    assert recipe.minutes is not None
    total, why = recipe.minutes * 60, []
    if not is_sized and hasattr(module, "for_budget"):
        ratio = _machine_ratio(total)
        size = text.tokenizer.vocabulary_size
        config, changes, why = module.for_budget(total * ratio, text.shards.part.tokens, size)
        recipe = replace(recipe, **{name: value for name, value in changes.items() if name not in asked})
    return Choice(config, recipe, why)


def _machine_ratio(total: float) -> float:
    """How fast this machine is beside the reference. Of a short budget, nothing is spent on finding out."""
    if total < 60:
        return 1.0
    return measure_this_machine(min(total * 0.005, 1.0), size=512).flops_per_second / REFERENCE_SPEED


def allot(choice: Choice, module: Any, text: Text, started_at: float) -> Choice:
    """Measure how fast such a model trains and scores, and keep time for what comes after training."""
    recipe = choice.recipe
    assert recipe.minutes is not None
    total = recipe.minutes * 60
    speed = measure(module, choice.config, recipe, text, min(total * MEASURED_PART, LONGEST_MEASUREMENT))
    seen = int(EVALUATED_PART * total * speed.scoring / recipe.evaluations)
    recipe = replace(recipe, evaluation_tokens=max(min(seen, text.held_out_tokens), 1024))
    after = text.held_out_tokens / speed.scoring + WRITING_SECONDS

    def seconds_left() -> float:
        return max(total - (time.time() - started_at) - after, 0.05 * total)

    epochs = speed.training * seconds_left() / text.shards.part.tokens
    why = [*choice.why, f"{speed.training:,.0f} tokens/s on this machine: {epochs:.1f} times through the text"]
    return Choice(choice.config, recipe, why, seconds_left)


def measure(module: Any, config: Any, recipe: Recipe, text: Text, seconds: float) -> Speed:
    """Steps and scores of a model that is then thrown away, for about so many seconds."""
    torch.manual_seed(0)
    model: NeuralModel = module.Model(config, text.tokenizer.vocabulary_size, text.tokenizer.eos)
    windows = Windows([Ring([text.shards.tokens(0)])], [1.0], recipe.batch_size, recipe.window)
    optimizer = Optimizer(model, recipe)
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < 2 or time.perf_counter() - began < seconds * 0.7:
        window = windows.window(len(times))
        at = time.perf_counter()
        batch = Batch(torch.from_numpy(window.inputs), torch.from_numpy(window.targets))
        loss, _ = model.advance(batch, model.start(recipe.batch_size) if model.carries_state else None)
        (loss.total / loss.count).backward()
        optimizer.step(1.0)
        times.append(time.perf_counter() - at)
    scored = text.shards.tokens(0)[: max(4 * recipe.window, 1024)]
    at = time.perf_counter()
    model.score(scored)
    scoring = (len(scored) - 1) / (time.perf_counter() - at)
    return Speed(windows.tokens_per_step / sorted(times)[len(times) // 2], scoring)
