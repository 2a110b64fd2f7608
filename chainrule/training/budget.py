"""What to train in the time there is: a few seconds of measuring this machine, then size, batch, context and rates.

An architecture says itself, in `for_budget`, what suits so much time; here the time is made comparable between
machines, and divided: reading, measuring, training, evaluating and writing all count.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

import torch

from chainrule.config import override
from chainrule.data.batches import Batches
from chainrule.errors import Diverged
from chainrule.evaluation.figures import describe_counting
from chainrule.kernels.machine import measure_this_machine
from chainrule.models._neural import NeuralModel
from chainrule.models.contract import FitsBudget, FitsSpeed
from chainrule.tasks.base import Prepared, Task
from chainrule.training.adapt import choose_weights
from chainrule.training.callbacks import Callback
from chainrule.training.context import Budget, TrainingContext
from chainrule.training.precision import WORTH_ROUNDING, is_worth_trying
from chainrule.training.recipe import Recipe
from chainrule.training.resolve import Resolved
from chainrule.training.start import begin_from
from chainrule.training.trainer import Trainer
from chainrule.training.worker_pool import CAN_FORK

REFERENCE_SPEED = 165e9  # multiplications and additions a second, of the two cores that the sizes were chosen on
MEASURED_PART = 0.02  # of the budget, at the most, is spent on measuring
LONGEST_MEASUREMENT = 5.0
TUNED_RATES = {"learning_rate", "matrix_learning_rate", "beta2", "weight_decay"}
WORTH_FORKING = 1.05  # how much faster several processes must be
MOST_EPOCHS_FROM_RUN = 6  # times that a network which begins from a run reads its text
COMPARING_PER_PARAMETER = 1.3e-7  # a neutral text read by two models, and some 100 tokens written by each
WRITING_SECONDS = 1.0  # plots, hashes and the model card
WRITING_PER_PARAMETER = 2e-8  # four bytes written, synced and hashed


@dataclass(frozen=True)
class Speed:
    """How fast a model trains on this machine, in tokens a second, and the model that was measured."""

    training: float
    model: NeuralModel


def fit_budget(resolved: Resolved, task: Task, prepared: Prepared, started_at: float) -> Resolved:
    """The model, the recipe and the seconds of training that suit the budget, where that is in minutes."""
    assert resolved.recipe is not None
    if resolved.recipe.minutes is None:
        return replace(resolved, config=task.complete(resolved.config))
    tokens = prepared.data["text"]["train"]["tokens"]
    if not resolved.is_sized and resolved.recipe.engine == "torch" and isinstance(resolved.module, FitsBudget):
        resolved = choose_size(resolved, task, tokens)
    resolved = replace(resolved, config=task.complete(resolved.config))
    return divide_time(resolved, task, tokens, started_at)


def choose_size(resolved: Resolved, task: Task, tokens: int) -> Resolved:
    """The architecture's own choice for the time, the text and the machine; what the user named stays."""
    recipe, module = resolved.recipe, resolved.module
    assert recipe is not None and recipe.minutes is not None and isinstance(module, FitsBudget)
    total = recipe.minutes * 60
    return _take(resolved, *module.for_budget(total * _machine_ratio(total), tokens, task.tokenizer.vocabulary_size))


def _take(resolved: Resolved, config: Any, changes: dict[str, Any], why: list[str]) -> Resolved:
    """With what an architecture chose; what the user named stays."""
    recipe = resolved.recipe
    assert recipe is not None
    config = override(config, resolved.chosen_for_model, "the settings of the model")
    # Rates are good for the optimizer they go with.
    kept = set(resolved.chosen) | (TUNED_RATES if "optimizer" in resolved.chosen else set())
    recipe = replace(recipe, **{name: value for name, value in changes.items() if name not in kept})
    if "window" not in resolved.chosen and getattr(config, "context_length", None):
        recipe = replace(recipe, window=config.context_length)
    return replace(resolved, config=config, recipe=recipe, why=why)


def choose_size_again(resolved: Resolved, task: Task, tokens: int, speed: float) -> Resolved:
    """The same for the speed that was measured, of an architecture that knows what to make of it."""
    recipe, module = resolved.recipe, resolved.module
    assert recipe is not None and recipe.minutes is not None
    if resolved.is_sized or recipe.engine != "torch" or not isinstance(module, FitsSpeed):
        return resolved
    found = module.for_speed(resolved.config, speed, recipe.minutes * 60, tokens, task.tokenizer.vocabulary_size)
    return resolved if found is None else _take(resolved, *found)


def choose_dropout_again(resolved: Resolved, task: Task, tokens: int, speed: float) -> Resolved:
    """The same size, with the dropout for the speed that was measured of it: before, another model's was known, and a
    larger one may use this machine twice as well."""
    again = task.complete(choose_size_again(resolved, task, tokens, speed).config)
    dropout = {name: value for name, value in vars(again).items() if name.endswith("dropout")}
    config = replace(resolved.config, **dropout)
    return replace(resolved, config=config) if config == again else resolved


def _machine_ratio(total: float) -> float:
    """The speed of this machine relative to the reference. A short budget spends nothing on finding out."""
    if total < 60:
        return 1.0
    return measure_this_machine(min(total * 0.005, 1.0), size=512).flops_per_second / REFERENCE_SPEED


def divide_time(resolved: Resolved, task: Task, tokens: int, started_at: float) -> Resolved:
    """Measure how fast such a model trains, and reserve the time that evaluating and writing will take."""
    recipe = resolved.recipe
    assert recipe is not None and recipe.minutes is not None
    total = recipe.minutes * 60
    measured = min(total * MEASURED_PART, LONGEST_MEASUREMENT)
    counting = task.measure_counting(total)
    recipe, speed, reasons = choose_speed(resolved, task, measured)
    again = choose_size_again(resolved, task, tokens, speed.training)
    if again != resolved:
        resolved = replace(again, config=task.complete(again.config))
        recipe, speed, reasons = choose_speed(resolved, task, measured)
        resolved = choose_dropout_again(resolved, task, tokens, speed.training)
    changes, evaluation_seconds = task.plan_evaluation(speed.model, recipe, total, resolved.chosen)
    recipe = replace(recipe, **changes)
    if resolved.start is not None:  # that is measured, too, and both say something
        evaluation_seconds = 2 * evaluation_seconds + speed.model.num_parameters * COMPARING_PER_PARAMETER
    after = evaluation_seconds + WRITING_SECONDS + speed.model.num_parameters * WRITING_PER_PARAMETER
    seconds = max(total - (time.time() - started_at) - after, 0.05 * total)
    epochs = speed.training * seconds / tokens
    processes = f" in {recipe.workers} processes" if recipe.workers > 1 else ""
    why = f"{speed.training:,.0f} tokens/s on this machine{processes}: {epochs:.1f} times through the text"
    lines = [*resolved.why, *reasons, why, *([] if counting is None else [describe_counting(counting)])]
    resolved = replace(resolved, recipe=recipe, why=lines, counting=counting, budget_seconds=seconds)
    return resolved if resolved.start is None else limit_epochs(resolved, task, epochs)


def limit_epochs(resolved: Resolved, task: Task, epochs: float) -> Resolved:
    """A network that begins from a run soon learns a small text by heart, so it does not read it too often, and its
    rate falls to nothing by then, whatever time is left."""
    recipe = resolved.recipe
    assert recipe is not None
    if epochs <= MOST_EPOCHS_FROM_RUN:
        return resolved
    batches = task.batches(recipe)
    steps = max(round(MOST_EPOCHS_FROM_RUN * batches.tokens_per_epoch / batches.tokens_per_step), 1)
    why = f"it is read {MOST_EPOCHS_FROM_RUN} times, as more would only be learned by heart"
    return replace(
        resolved, recipe=replace(recipe, minutes=None, steps=steps), why=[*resolved.why, why], budget_seconds=None
    )


def choose_speed(resolved: Resolved, task: Task, seconds: float) -> tuple[Recipe, Speed, list[str]]:
    """The recipe with the processes and the precision that train fastest here, how fast that is, and why.

    What the user named stays. Each way is tried for a part of the seconds: first how many processes, then, with as
    many, bfloat16, which has to be clearly faster.
    """
    recipe = resolved.recipe
    assert recipe is not None
    forks, rounds = may_fork(resolved), may_round(resolved)
    batches, each = task.batches(recipe), seconds * 0.7 / (1 + forks + rounds)
    speed = measure(resolved, task, recipe, batches, each)
    if forks:
        many = replace(recipe, workers=torch.get_num_threads())
        together = measure(resolved, task, many, batches, each)
        if together.training > speed.training * WORTH_FORKING:
            recipe, speed = many, together
    if rounds:
        half = replace(recipe, precision="bfloat16")
        rounded = try_to_measure(resolved, task, half, batches, each)
        if rounded and rounded.training >= speed.training * WORTH_ROUNDING:
            ratio = rounded.training / speed.training
            return half, rounded, [f"bfloat16: {ratio:.1f} times as fast as float32 here"]
    return recipe, speed, []


def build_model(resolved: Resolved, task: Task) -> NeuralModel:
    """A new model, or that of the run which training begins from."""
    assert resolved.recipe is not None
    if resolved.start is None:
        found: NeuralModel = task.build(resolved.module, resolved.config, 0)
        return found
    return choose_weights(begin_from(resolved.start, resolved.config, task.tokenizer), resolved.recipe)


def try_to_measure(resolved: Resolved, task: Task, recipe: Recipe, batches: Batches, seconds: float) -> Speed | None:
    """As `measure`; None for a model that cannot be trained so, as one whose operations take no mixed precision."""
    try:
        return measure(resolved, task, recipe, batches, seconds)
    except (RuntimeError, Diverged):
        return None


def may_fork(resolved: Resolved) -> bool:
    """Whether one process per thread is a choice: on several threads, unless the user named a number of processes."""
    return resolved.start is None and "workers" not in resolved.chosen and torch.get_num_threads() > 1 and CAN_FORK


def may_round(resolved: Resolved) -> bool:
    """Whether bfloat16 is a choice: where the processor is fast in it, unless the user named a precision."""
    assert resolved.recipe is not None
    return "precision" not in resolved.chosen and resolved.recipe.engine == "torch" and is_worth_trying()


def measure(resolved: Resolved, task: Task, recipe: Recipe, batches: Batches, seconds: float) -> Speed:
    """The speed of a new model that is trained for about so many seconds and then thrown away."""
    model = build_model(resolved, task)
    objective = task.objective(model, recipe)
    context = TrainingContext(batches, Budget(steps=1 << 30), counts=task.counts, objective=objective)
    return Speed(batches.tokens_per_step / seconds_per_step(model, recipe, context, seconds), model)


def seconds_per_step(model: NeuralModel, recipe: Recipe, context: TrainingContext, seconds: float) -> float:
    """The median over the steps that so many seconds allow, two at the least, without the first.

    In that one, torch makes the kernels for shapes and a precision that it has not met before.
    """
    trainer = Trainer(model, recipe, context, Callback(), None)
    times: list[float] = []
    began = time.perf_counter()
    with trainer.workers_running():
        while len(times) < 2 or time.perf_counter() - began < seconds:
            at = time.perf_counter()
            trainer.step()
            times.append(time.perf_counter() - at)
    later = sorted(times[1:])
    return later[len(later) // 2]
