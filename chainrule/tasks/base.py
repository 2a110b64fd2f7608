"""What a task is: it turns the files that people have into batches for the training loop, and measures the result.

A task is one file in chainrule/tasks with one class `Task`; `chainrule train --task NAME` finds it by its name. The
training pipeline and the loop know none of them, and treat language modelling like every other.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from chainrule import registry
from chainrule.data.batches import Batches, TrainingBatch
from chainrule.data.corpus import Reading
from chainrule.data.split import Splitting
from chainrule.errors import UserError, did_you_mean
from chainrule.evaluation.figures import CountingFigures, Evaluation
from chainrule.evaluation.validation import Validate
from chainrule.runs.folder import LANGUAGE as LANGUAGE
from chainrule.runs.folder import TOKENS_FOLDER
from chainrule.runs.records import DataConfig
from chainrule.text import stored
from chainrule.text.base import Tokenizer
from chainrule.text.choice import Tokenization

FOLDER = TOKENS_FOLDER
TOKENIZER_FACTS = "tokenizer.json"  # in the FOLDER: what the tokenizer.json of the run does not say

RESERVED_PART = 0.08  # of a budget in minutes is kept for the final evaluation, where a task does not know better


@dataclass(frozen=True)
class Material:
    """The data that a person wants learned, as named on the command line or in Python."""

    inputs: tuple[str, ...]
    validation: tuple[str, ...] = ()
    reading: Reading = field(default_factory=Reading)
    splitting: Splitting = field(default_factory=Splitting)
    tokenization: Tokenization = field(default_factory=Tokenization)
    default_tokenizer: str = "bpe"  # the model's choice where `tokenization` leaves it open
    reads_once: bool = False  # whether the model reads its data once, as counting does, or as often as it likes
    tokenizer: Tokenizer | None = None  # of the run that training begins from, if any
    context_length: int | None = None  # the most tokens that this run's model reads; None: any number, or not yet known


@dataclass(frozen=True)
class Prepared:
    """What `Task.prepare` tells the run about the data it has written.

    `data` goes to config.json as it is; it has a `unit` and, in `text`, for "train" and "validation" the numbers of
    documents, tokens and bytes and a hash. `files` are the paths that were read.
    """

    data: DataConfig
    files: list[str]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Said:
    """What a model said before some training and what it says after it."""

    asked: str
    before: str
    after: str
    expected: str | None = None  # what the data have there


@dataclass(frozen=True)
class NoSettings:
    """For a task that has nothing to choose."""


class Task:
    """Prepared data in a folder, and how to learn from it. Everything a task needs later is in that folder.

    A task defines `models`, `command`, `prepare`, `__init__`, `batches`, `validation` and `evaluate`; all else has a
    default.
    """

    models: ClassVar[tuple[str, ...]] = ()  # the architectures that can learn it, the default first
    command: ClassVar[str]  # the command that uses a run of this task: 'translate'
    settings_class: ClassVar[type] = NoSettings  # a frozen dataclass; `--set name=value` sets its fields
    can_begin_from_run: ClassVar[bool] = False  # whether `prepare` takes the tokenizer of a run and goes on with it
    needs_run: ClassVar[bool] = False  # whether training can only go on from a run
    reading_options: ClassVar[tuple[str, ...]] = ()  # fields of Reading that apply, besides `encoding`

    tokenizer: Tokenizer  # of the tokens that the model predicts, or of those it reads where it predicts something else
    bytes_per_token: float | None = None  # of the validation text, where bits per byte make sense
    counts: np.ndarray | None = None  # how often each token occurs, for a sampled softmax

    @classmethod
    def default_model(cls, has_budget: bool, tokenizer: str) -> str:
        """The architecture to train where none was named."""
        return cls.models[0]

    @classmethod
    def check_model(cls, name: str, module: Any) -> None:
        """Refuse an architecture that cannot learn this task."""
        if name not in cls.models:
            raise UserError(
                f"{cls.__module__.rpartition('.')[2]} cannot be learned by {name}{did_you_mean(name, cls.models)} "
                f"(it can by: {', '.join(cls.models)})"
            )

    @classmethod
    def suggest(cls, recipe: Any, settings: Any) -> dict[str, Any]:
        """Settings of training that suit this task better than those of a recipe that begins from a run; what the user
        names stays."""
        return {}

    @classmethod
    def check_recipe(cls, recipe: Any) -> None:
        """Refuse settings of training with which this task cannot be learned."""

    @classmethod
    def open_data(cls, material: Material, settings: Any) -> Any:
        """Find people's files, and read what must be known of them before a run folder is made: a mistake in a name
        must not cost an older run. What this returns is handed to `prepare`."""
        return None

    @classmethod
    def prepare(cls, material: Material, settings: Any, data: Any, folder: Path) -> Prepared:
        """Read people's files, make vocabularies, and write all that `Task(folder)` needs into the folder: the
        tokenizer as tokenizer.json, the rest in a new folder FOLDER."""
        raise NotImplementedError

    @staticmethod
    def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
        tokenizer.save(folder / "tokenizer.json")
        stored.write_facts(tokenizer, folder / FOLDER / TOKENIZER_FACTS)

    def __init__(self, folder: Path):
        self.folder = folder
        self.tokenizer = stored.load(folder / "tokenizer.json", stored.read_facts(folder / FOLDER / TOKENIZER_FACTS))

    @classmethod
    def usages(cls, run: str) -> list[str]:
        """Commands to try on a finished run, the first one at the end of training, all in its model card."""
        return [f"chainrule {cls.command} {run}"]

    def complete(self, config: Any) -> Any:
        """The model's settings with what the data decide, such as the sizes of further vocabularies."""
        return config

    def build(self, module: Any, config: Any, seed: int) -> Any:
        """A new model with random weights."""
        import torch

        torch.manual_seed(seed)
        return module.Model(config, self.tokenizer.vocabulary_size, self.tokenizer.eos)

    def fit(self, model: Any) -> Any:
        """Let a model that counts read the training data once."""
        raise NotImplementedError

    def prime(self, model: Any, recipe: Any) -> None:
        """Set weights that are known before the first step of training, such as word vectors by counting."""

    def batches(self, recipe: Any) -> Batches:
        """What training reads, as a pure function of the step; `recipe` has batch_size, window, chain and seed."""
        raise NotImplementedError

    def objective(self, model: Any, recipe: Any, read: Callable[[Any], Any] | None = None) -> Callable[..., Any] | None:
        """What the loop minimises in place of `model.advance`, and called alike; None: the model's own loss.

        `model` is as training begins with it. `read`, where it is given, is its `read` for separate texts: tokens
        (rows, time) -> hidden states. A batch may have more dimensions than rows and time, and says in `examples` how
        many its loss is the mean over.
        """
        return None

    def validation(self, recipe: Any) -> Validate | np.ndarray | None:
        """How the best weights are chosen: a function that measures the model, or a token stream to score."""
        raise NotImplementedError

    def evaluate(self, model: Any, recipe: Any) -> Evaluation | None:
        """The final figures: loss, perplexity, bits_per_byte (each may be None), impossible_tokens, tokens and
        documents; and in `figures` what the task itself measures, by name: {'BLEU': 36.5}."""
        raise NotImplementedError

    def plan_evaluation(
        self, model: Any, recipe: Any, seconds: float, chosen: Collection[str]
    ) -> tuple[dict[str, Any], float]:
        """Within a budget of so many seconds: settings of the recipe that make evaluating affordable (except those in
        `chosen`, which the user named), and the seconds to reserve for the final evaluation."""
        return {}, RESERVED_PART * seconds

    def measure_counting(self, seconds: float) -> CountingFigures | None:
        """What counting makes of the same data, where that is quickly known within a budget of so many seconds."""
        return None

    def example(self) -> list[tuple[str, bool]] | None:
        """One example as the model reads it, in pieces, each with whether it is asked for; to be shown before training
        and in the model card where that is not all of the text."""
        return None

    def compare(self, before: Any, after: Any) -> list[Said]:
        """What two models of this task's tokens say to the same questions of the data kept aside."""
        return []

    def describe(self, batch: TrainingBatch) -> str:
        """A batch in words, for the message that training diverged on it."""
        return "a batch"

    def sampler(self, model: Any) -> Callable[[], str] | None:
        """Draws a sample of what the model writes, to be shown while it learns."""
        return None

    def prober(self, model: Any) -> Callable[[], list[dict[str, Any]]] | None:
        """Records what the model predicts in a few fixed contexts, to be journalled while it learns."""
        return None


def find_task(name: str) -> type[Task]:
    task: type[Task] = registry.find("chainrule.tasks", name, "task").Task
    return task
