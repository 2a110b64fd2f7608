"""From what a task has prepared to a model trained by gradient; begun, or gone on with after an interruption."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from chainrule.data.batches import Batches, Ring, StreamBatches
from chainrule.data.shards import TokenShards
from chainrule.models._neural import NeuralModel
from chainrule.tasks.base import Task
from chainrule.text.base import Tokenizer
from chainrule.training.callbacks import Callback, CallbackList
from chainrule.training.checkpoint import Checkpoints
from chainrule.training.context import Budget, TrainingContext
from chainrule.training.job import Job
from chainrule.training.journal import Journal, events
from chainrule.training.loop import Trainer
from chainrule.training.recipe import Recipe
from chainrule.training.view import View
from chainrule.training.warn import Warner

SAMPLED_FROM_SECONDS = 60.0  # shorter trainings have no time to spare


@dataclass(frozen=True)
class Learned:
    model: NeuralModel
    steps: int
    tokens: int
    epochs: list[float]
    seconds: float
    best_step: int


def make_windows(job: Job, recipe: Recipe, shards: TokenShards) -> StreamBatches:
    ends = [*job.first_shards[1:], len(shards)]
    rings = [
        Ring([shards.tokens(shard) for shard in range(first, end)])
        for first, end in zip(job.first_shards, ends, strict=True)
    ]
    return StreamBatches(rings, job.weights, recipe.batch_size, recipe.window, recipe.chain, recipe.seed)


def make_budget(recipe: Recipe, windows: Batches, deadline_seconds: float | None) -> Budget:
    """Tokens and epochs are turned into steps; of minutes, what is left when the loop begins."""
    if recipe.minutes is not None:
        return Budget(seconds=deadline_seconds if deadline_seconds is not None else recipe.minutes * 60)
    if recipe.steps is not None:
        return Budget(steps=recipe.steps)
    tokens = recipe.tokens
    if tokens is None:
        tokens = (recipe.epochs or 1.0) * windows.tokens_per_epoch
    return Budget(steps=max(1, round(tokens / windows.tokens_per_step)))


def build_model(module: Any, config: Any, tokenizer: Tokenizer, seed: int, counts: np.ndarray) -> NeuralModel:
    """With random weights; an output bias starts as what is known without any training, how frequent words are."""
    torch.manual_seed(seed)
    model: NeuralModel = module.Model(config, tokenizer.vocabulary_size, tokenizer.eos)
    bias = getattr(model, "output_bias", None)
    if isinstance(bias, nn.Parameter):
        frequencies = torch.from_numpy(counts).float() + 1
        bias.data.copy_((frequencies / frequencies.sum()).log())
    return model


def learn(folder: Path, job: Job, task: Task, callbacks: tuple[Callback, ...] = ()) -> Learned:
    """Train in this run folder, from its newest checkpoint where there is one."""
    module, config, recipe = job.build()
    batches = task.batches(recipe)
    checkpoints, journal = Checkpoints(folder), Journal(folder / "metrics.jsonl")
    newest = checkpoints.load()
    if newest:
        job.check_belongs(newest.facts["job"])
    model: NeuralModel = task.build(module, config, recipe.seed)
    if not newest:
        task.prime(model, recipe)
    budget = make_budget(recipe, batches, job.budget_seconds)
    has_time = budget.seconds is None or budget.seconds >= SAMPLED_FROM_SECONDS
    context = TrainingContext(
        batches,
        budget,
        task.validation(recipe),
        task.bytes_per_token,
        counts=task.counts,
        describe_batch=task.describe,
        sample=task.sampler(model) if has_time else None,
        probe=task.prober(model),
        facts={"job": job.fingerprint},
    )
    journal.rewind(int(newest.facts["step"]) if newest else -1)
    shown = CallbackList(journal, View(), *callbacks)
    with CallbackList(shown, Warner(shown.message, recipe.clip, events(journal.path))) as callback:
        trainer = Trainer(model, recipe, context, callback, checkpoints)
        if newest:
            trainer.load(newest)
        callback.begin(
            {
                "architecture": job.architecture,
                "parameters": model.num_parameters,
                "vocabulary_size": task.tokenizer.vocabulary_size,
                "total_steps": budget.steps,
                "budget_seconds": budget.seconds,
                "resumed_at_step": trainer.position.step,
                "chosen": job.why,
            }
        )
        for line in [*job.why, *[f"note: {note}" for note in checkpoints.notes]]:
            callback.message(line)
        trainer.run()
        callback.end()
    position = trainer.position
    seen = round(position.step * batches.tokens_per_step)
    return Learned(model, position.step, seen, batches.epochs(position.step), position.seconds, position.best_step)
