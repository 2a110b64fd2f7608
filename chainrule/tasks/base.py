"""What a task is: from the files that people have to batches that the training loop reads, and a measure of quality.

A task is one file in chainrule/tasks with
  Settings   a frozen dataclass of what can be chosen; `--set name=value` sets them as those of the model
  MODELS     the architectures that can learn it, the default first
  COMMAND    what uses such a run: 'translate'
  prepare    (Material, Settings, folder) -> Prepared: read people's files, make vocabularies, write all into `folder`
  Task       (folder): what was written there, opened by training, by its resumption, and by whoever uses the run
There is no registry: `chainrule train --task NAME` looks for the file. The loop knows none of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.data.batches import Batches, TrainingBatch
from chainrule.data.corpus import Reading
from chainrule.data.split import Splitting
from chainrule.evaluation.validation import Validate
from chainrule.runs.folder import LANGUAGE as LANGUAGE
from chainrule.runs.folder import TOKENS_FOLDER
from chainrule.text.base import Tokenizer
from chainrule.text.choice import Tokenization

FOLDER = TOKENS_FOLDER


@dataclass(frozen=True)
class Material:
    """What a person wants learned, as it was named."""

    inputs: tuple[str, ...]
    validation: tuple[str, ...] = ()
    reading: Reading = field(default_factory=Reading)
    splitting: Splitting = field(default_factory=Splitting)
    tokenization: Tokenization = field(default_factory=Tokenization)


@dataclass(frozen=True)
class Prepared:
    """What is to be said of it in the run: `data` as config.json has it, with a `unit` and the sizes of its parts in
    `text`; `files` are the paths that were read."""

    data: dict[str, Any]
    files: list[str]
    notes: list[str] = field(default_factory=list)


class Task:
    """What was prepared, and how to learn from it. Everything it needs is in the folder, tokenizer.json among it."""

    tokenizer: Tokenizer  # of the tokens that the model predicts, or of those it reads where it predicts something else
    bytes_per_token: float | None = None  # of the validation text, where bits per byte make sense
    counts: np.ndarray | None = None  # how often each token occurs, for a sampled softmax

    def __init__(self, folder: Path):
        self.folder = folder
        self.tokenizer = Tokenizer.load(folder / "tokenizer.json")

    def complete(self, config: Any) -> Any:
        """The settings of the model with what the data decide, such as the sizes of further vocabularies."""
        return config

    def build(self, module: Any, config: Any, seed: int) -> Any:
        """A new model with random weights."""
        import torch

        torch.manual_seed(seed)
        return module.Model(config, self.tokenizer.vocabulary_size, self.tokenizer.eos)

    def prime(self, model: Any, recipe: Any) -> None:
        """What is known before the first step of a training, where anything is, goes into the weights."""

    def batches(self, recipe: Any) -> Batches:
        """What training reads, a pure function of the step; recipe has batch_size, window, chain and seed."""
        raise NotImplementedError

    def validation(self, recipe: Any) -> Validate | np.ndarray | None:
        """How the best weights are found: a measure of the model, or a stream whose loss is it."""
        raise NotImplementedError

    def evaluate(self, model: Any, recipe: Any) -> dict[str, Any] | None:
        """How good it is in the end: loss, perplexity, bits_per_byte (each may be None), impossible_tokens, tokens and
        documents; and in `figures` what the task itself measures, by name: {'BLEU': 36.5}."""
        raise NotImplementedError

    def describe(self, window: TrainingBatch) -> str:
        """A batch, for the message that training went wrong in it."""
        return "a batch"

    def sampler(self, model: Any) -> Callable[[], str] | None:
        """What the model says, to be shown while it learns."""
        return None

    def prober(self, model: Any) -> Callable[[], list[dict[str, Any]]] | None:
        """What the model expects in a few places, to be written down while it learns."""
        return None
