"""What to train in the time there is: a few seconds of measuring this machine, then size, batch, context and rates.

An architecture says by itself, in `for_budget`, what suits so much time; here the time is made comparable between
machines, and paid out: reading, measuring, training, evaluating and writing all count.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from chainrule.config import override
from chainrule.data.batches import Ring, StreamBatches
from chainrule.data.shards import TokenShards
from chainrule.kernels.machine import measure_this_machine
from chainrule.models._neural import NeuralModel
from chainrule.tasks.base import Task
from chainrule.text.base import Tokenizer
from chainrule.training.callbacks import Callback
from chainrule.training.context import Budget, TrainingContext
from chainrule.training.loop import Trainer
from chainrule.training.recipe import Recipe
from chainrule.training.worker_pool import CAN_FORK

REFERENCE_SPEED = 165e9  # multiplications and additions a second, of the two cores that the sizes were chosen on
MEASURED_PART = 0.02  # of the budget, at the most, is spent on measuring
LONGEST_MEASUREMENT = 5.0
EVALUATED_PART = 0.04  # of the budget goes to evaluations before the end
SCORED_PART = 0.1  # and no more than this to the validation text at the end
RATES = {"learning_rate", "matrix_learning_rate", "beta2", "weight_decay"}
WORTH_FORKING = 1.05  # how much faster several processes must be
SPARED_PART = 0.08  # of the budget of another task than text is kept for measuring it in the end
WRITING_SECONDS = 1.0  # plots, hashes and the model card
WRITING_PER_PARAMETER = 2e-8  # four bytes written, synced and hashed


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
    parameters: int


@dataclass(frozen=True)
class Choice:
    config: Any
    recipe: Recipe
    why: list[str]
    seconds: float | None = None  # of minutes, what is left for the loop when everything else is paid for


def choose(module: Any, recipe: Recipe, asked: Mapping[str, Any], own: Mapping[str, Any], text: Text) -> Choice:
    """The architecture's own choice for the time, the text and the machine; what was asked for stays."""
    assert recipe.minutes is not None
    total = recipe.minutes * 60
    seconds = total * _machine_ratio(total)
    config, changes, why = module.for_budget(seconds, text.shards.part.tokens, text.tokenizer.vocabulary_size)
    config = override(config, own, "the settings of the model")
    kept = set(asked) | (RATES if "optimizer" in asked else set())  # rates are good for the optimizer they go with
    recipe = replace(recipe, **{name: value for name, value in changes.items() if name not in kept})
    if "window" not in asked and getattr(config, "context_length", None):
        recipe = replace(recipe, window=config.context_length)
    return Choice(config, recipe, why)


def _machine_ratio(total: float) -> float:
    """How fast this machine is beside the reference. Of a short budget, nothing is spent on finding out."""
    if total < 60:
        return 1.0
    return measure_this_machine(min(total * 0.005, 1.0), size=512).flops_per_second / REFERENCE_SPEED


def allot(choice: Choice, module: Any, text: Text, asked: Mapping[str, Any], started_at: float) -> Choice:
    """Measure how fast such a model trains and scores, and keep time for what comes after training."""
    recipe = choice.recipe
    assert recipe.minutes is not None
    total = recipe.minutes * 60
    measured = min(total * MEASURED_PART, LONGEST_MEASUREMENT)
    recipe, speed = choose_workers(module, choice.config, recipe, text, measured, "workers" in asked)
    if "evaluation_tokens" not in asked:
        affordable = int(EVALUATED_PART * total * speed.scoring / recipe.evaluations)
        recipe = replace(recipe, evaluation_tokens=max(min(affordable, text.held_out_tokens), 1024))
    if "final_tokens" not in asked and text.held_out_tokens > SCORED_PART * total * speed.scoring:
        recipe = replace(recipe, final_tokens=max(int(SCORED_PART * total * speed.scoring), 4096))
    scored = min(text.held_out_tokens, recipe.final_tokens or text.held_out_tokens) + recipe.evaluation_tokens
    after = scored / speed.scoring + WRITING_SECONDS + speed.parameters * WRITING_PER_PARAMETER
    seconds = max(total - (time.time() - started_at) - after, 0.05 * total)
    epochs = speed.training * seconds / text.shards.part.tokens
    hands = f" in {recipe.workers} processes" if recipe.workers > 1 else ""
    why = [*choice.why, f"{speed.training:,.0f} tokens/s on this machine{hands}: {epochs:.1f} times through the text"]
    return Choice(choice.config, recipe, why, seconds)


def choose_workers(
    module: Any, config: Any, recipe: Recipe, text: Text, seconds: float, is_asked: bool
) -> tuple[Recipe, Speed]:
    """With one process that has all threads, or one for each of them, whichever trains faster."""
    count = torch.get_num_threads()
    if is_asked or count < 2 or not CAN_FORK:
        return recipe, measure(module, config, recipe, text, seconds)
    many = replace(recipe, workers=count)
    alone, together = (measure(module, config, each, text, seconds / 2) for each in (recipe, many))
    return (many, together) if together.training > alone.training * WORTH_FORKING else (recipe, alone)


def measure(module: Any, config: Any, recipe: Recipe, text: Text, seconds: float) -> Speed:
    """Steps and scores of a model that is then thrown away, for about so many seconds."""
    stream, size = text.shards.tokens(0), text.tokenizer.vocabulary_size
    torch.manual_seed(0)
    model: NeuralModel = module.Model(config, size, text.tokenizer.eos)
    windows = StreamBatches([Ring([stream])], [1.0], recipe.batch_size, recipe.window)
    context = TrainingContext(windows, Budget(steps=1 << 30), counts=np.bincount(stream, minlength=size))
    training = windows.tokens_per_step / time_of_step(model, recipe, context, seconds * 0.7)
    scored = stream[: max(4 * recipe.window, 1024)]
    at = time.perf_counter()
    model.score(scored)
    scoring = (len(scored) - 1) / (time.perf_counter() - at)
    return Speed(training, scoring, model.num_parameters)


def time_of_step(model: NeuralModel, recipe: Recipe, context: TrainingContext, seconds: float) -> float:
    """The median of what can be done in so many seconds, and of two at the least."""
    trainer = Trainer(model, recipe, context, Callback(), None)
    times: list[float] = []
    began = time.perf_counter()
    with trainer.together():
        while len(times) < 2 or time.perf_counter() - began < seconds:
            at = time.perf_counter()
            trainer.step()
            times.append(time.perf_counter() - at)
    return sorted(times)[len(times) // 2]


def measure_task(task: Task, module: Any, config: Any, recipe: Recipe, is_asked: bool) -> tuple[Recipe, list[str]]:
    """The number of processes that trains fastest, and what can be expected of it."""
    assert recipe.minutes is not None
    count = torch.get_num_threads()
    counts = [recipe.workers] if is_asked or count < 2 or not CAN_FORK else [1, count]
    seconds = min(recipe.minutes * 60 * MEASURED_PART, LONGEST_MEASUREMENT) / len(counts)
    batches, found = task.batches(recipe), []
    for workers in counts:
        model = task.build(module, config, 0)
        trial = replace(recipe, workers=workers)
        found.append(time_of_step(model, trial, TrainingContext(batches, Budget(steps=1 << 30)), seconds))
    best = 1 if len(found) > 1 and found[0] > found[1] * WORTH_FORKING else 0
    speed = batches.tokens_per_step / found[best]
    hands = f" in {counts[best]} processes" if counts[best] > 1 else ""
    epochs = speed * recipe.minutes * 60 * (1 - SPARED_PART) / batches.tokens_per_epoch
    why = f"{speed:,.0f} tokens/s on this machine{hands}: about {epochs:.1f} times through the data"
    return replace(recipe, workers=counts[best]), [why]
