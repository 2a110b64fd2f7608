"""From token shards to a model that was trained by gradient; begun, or gone on with after an interruption."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from chainrule.data.shards import TokenShards
from chainrule.data.windows import Ring, Window, Windows
from chainrule.evaluation.stream import spread
from chainrule.models._neural import NeuralModel
from chainrule.text.base import Tokenizer
from chainrule.training.checkpoint import Checkpoints
from chainrule.training.glimpse import Contexts
from chainrule.training.job import Job
from chainrule.training.journal import Journal, events
from chainrule.training.journey import Budget, Journey
from chainrule.training.loop import Trainer
from chainrule.training.recipe import Recipe
from chainrule.training.vectors import vectors_by_counting
from chainrule.training.view import View
from chainrule.training.warn import Warner
from chainrule.training.watch import Record, Watcher, Watchers

SAMPLE_TOKENS = 120
SAMPLED_FROM_SECONDS = 60.0  # shorter trainings have no time to spare


@dataclass(frozen=True)
class Learned:
    model: NeuralModel
    steps: int
    tokens: int
    epochs: list[float]
    seconds: float
    best_step: int


def make_windows(job: Job, recipe: Recipe, shards: TokenShards) -> Windows:
    ends = [*job.first_shards[1:], len(shards)]
    rings = [
        Ring([shards.tokens(shard) for shard in range(first, end)])
        for first, end in zip(job.first_shards, ends, strict=True)
    ]
    return Windows(rings, job.weights, recipe.batch_size, recipe.window, recipe.chain, recipe.seed)


def make_budget(recipe: Recipe, windows: Windows, deadline_seconds: float | None) -> Budget:
    """Tokens and epochs are turned into steps; of minutes, what is left when the loop begins."""
    if recipe.minutes is not None:
        return Budget(seconds=deadline_seconds if deadline_seconds is not None else recipe.minutes * 60)
    if recipe.steps is not None:
        return Budget(steps=recipe.steps)
    tokens = recipe.tokens
    if tokens is None:
        tokens = (recipe.epochs or 1.0) * sum(ring.size for ring in windows.rings)
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


def begin_with_counted_vectors(model: NeuralModel, shards: TokenShards, counts: np.ndarray) -> None:
    """As large as the random ones that they replace."""
    embedding = model.get_submodule("embedding")
    assert isinstance(embedding, nn.Embedding)
    table = embedding.weight.detach()[: len(counts)]
    vectors = vectors_by_counting((shards.tokens(shard) for shard in range(len(shards))), counts, table.shape[1])
    table.copy_(vectors * table.std())


def learn(
    folder: Path,
    job: Job,
    tokenizer: Tokenizer,
    watchers: tuple[Watcher, ...] = (),
) -> Learned:
    """Train in this run folder, from its newest checkpoint where there is one."""
    module, config, recipe = job.build()
    shards, held_out = TokenShards(folder / "tokens", "train"), TokenShards(folder / "tokens", "validation")
    counts = _counts(shards, tokenizer)
    windows = make_windows(job, recipe, shards)
    checkpoints, journal = Checkpoints(folder), Journal(folder / "metrics.jsonl")
    newest = checkpoints.load()
    if newest:
        job.check_belongs(newest.facts["job"])
    model = build_model(module, config, tokenizer, recipe.seed, counts)
    if recipe.first_vectors == "counted" and not newest:
        begin_with_counted_vectors(model, shards, counts)
    budget = make_budget(recipe, windows, job.budget_seconds)
    journey = Journey(
        windows,
        budget,
        _validation(held_out, recipe),
        held_out.part.text_bytes / max(held_out.part.tokens, 1) if tokenizer.is_lossless else None,
        counts=counts,
        describe_batch=lambda window: _describe(window, tokenizer),
        sample=_sampler(model, tokenizer, budget),
        glimpse=_glimpser(model, tokenizer, held_out if held_out.part.documents else shards),
        facts={"job": job.essence},
    )
    journal.rewind(int(newest.facts["step"]) if newest else -1)
    shown = Watchers(journal, View(), *watchers)
    with Watchers(shown, Warner(shown.message, recipe.clip, events(journal.path))) as watcher:
        trainer = Trainer(model, recipe, journey, watcher, checkpoints)
        if newest:
            trainer.load(newest)
        watcher.begin(
            {
                "architecture": job.architecture,
                "parameters": model.num_parameters,
                "vocabulary_size": tokenizer.vocabulary_size,
                "total_steps": budget.steps,
                "budget_seconds": budget.seconds,
                "resumed_at_step": trainer.position.step,
                "chosen": job.why,
            }
        )
        for line in [*job.why, *[f"note: {note}" for note in checkpoints.notes]]:
            watcher.message(line)
        trainer.run()
        watcher.end()
    position = trainer.position
    seen = position.step * windows.tokens_per_step
    return Learned(model, position.step, seen, windows.epochs(position.step), position.seconds, position.best_step)


def _validation(held_out: TokenShards, recipe: Recipe) -> np.ndarray | None:
    """The part of the validation text that is looked at while training: pieces from all over it."""
    if not held_out.part.documents:
        return None
    return spread(held_out.tokens(0), recipe.evaluation_tokens)


def _counts(shards: TokenShards, tokenizer: Tokenizer) -> np.ndarray:
    counts = np.zeros(tokenizer.vocabulary_size, np.int64)
    for shard in range(len(shards)):
        counts += np.bincount(shards.tokens(shard), minlength=len(counts))
    return counts


def _describe(window: Window, tokenizer: Tokenizer) -> str:
    return f"a batch that begins with {tokenizer.decode(window.inputs[0][:12])!r}"


def _sampler(model: NeuralModel, tokenizer: Tokenizer, budget: Budget) -> Callable[[], str] | None:
    if budget.seconds is not None and budget.seconds < SAMPLED_FROM_SECONDS:
        return None
    from chainrule.generation import Sampling, sample

    settings = Sampling(temperature=0.8, max_tokens=SAMPLE_TOKENS, seed=0)
    return lambda: sample(model, tokenizer, "", settings)[0].text


def _glimpser(model: NeuralModel, tokenizer: Tokenizer, shards: TokenShards) -> Callable[[], list[Record]] | None:
    contexts = Contexts.choose(shards.tokens(0), tokenizer.eos)
    return None if contexts is None else lambda: contexts.look(model, tokenizer)
