"""The task of every run that names none: text, where each token is told by those before it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from chainrule.data.shards import TokenShards
from chainrule.data.windows import Window, Windows
from chainrule.evaluation.stream import evaluate_shards, spread
from chainrule.models._neural import NeuralModel
from chainrule.tasks.base import FOLDER, Task
from chainrule.training.glimpse import Contexts
from chainrule.training.job import Job
from chainrule.training.learn import build_model, make_windows
from chainrule.training.recipe import Recipe
from chainrule.training.vectors import vectors_by_counting
from chainrule.training.watch import Record

SAMPLE_TOKENS = 120


class Language(Task):
    """The token shards of a run folder, mixed as the job says."""

    def __init__(self, folder: Path, job: Job):
        super().__init__(folder)
        self._job = job
        self._shards, self._held_out = (TokenShards(folder / FOLDER, name) for name in ("train", "validation"))
        part = self._held_out.part
        self.bytes_per_token = part.text_bytes / max(part.tokens, 1) if self.tokenizer.is_lossless else None
        self.counts = np.zeros(self.tokenizer.vocabulary_size, np.int64)
        for shard in range(len(self._shards)):
            self.counts += np.bincount(self._shards.tokens(shard), minlength=len(self.counts))

    def build(self, module: Any, config: Any, seed: int) -> NeuralModel:
        assert self.counts is not None
        return build_model(module, config, self.tokenizer, seed, self.counts)

    def prime(self, model: NeuralModel, recipe: Recipe) -> None:
        """Embeddings begin as large as the random ones that they replace."""
        if recipe.first_vectors != "counted":
            return
        embedding, counts = model.get_submodule("embedding"), self.counts
        assert isinstance(embedding, nn.Embedding) and counts is not None
        table = embedding.weight.detach()[: len(counts)]
        streams = (self._shards.tokens(shard) for shard in range(len(self._shards)))
        table.copy_(vectors_by_counting(streams, counts, table.shape[1]) * table.std())

    def batches(self, recipe: Recipe) -> Windows:
        return make_windows(self._job, recipe, self._shards)

    def validation(self, recipe: Recipe) -> np.ndarray | None:
        """The part of the validation text that is looked at while training: pieces from all over it."""
        if not self._held_out.part.documents:
            return None
        return spread(self._held_out.tokens(0), recipe.evaluation_tokens)

    def evaluate(self, model: NeuralModel, recipe: Recipe) -> dict[str, Any] | None:
        return evaluate_shards(model, self.tokenizer, self._held_out, recipe.final_tokens)

    def describe(self, window: Window) -> str:
        return f"a batch that begins with {self.tokenizer.decode(window.inputs[0][:12])!r}"

    def sampler(self, model: NeuralModel) -> Callable[[], str]:
        from chainrule.generation import Sampling, sample

        settings = Sampling(temperature=0.8, max_tokens=SAMPLE_TOKENS, seed=0)
        return lambda: sample(model, self.tokenizer, "", settings)[0].text

    def glimpser(self, model: NeuralModel) -> Callable[[], list[Record]] | None:
        shards = self._held_out if self._held_out.part.documents else self._shards
        contexts = Contexts.choose(shards.tokens(0), self.tokenizer.eos)
        return None if contexts is None else lambda: contexts.look(model, self.tokenizer)
