"""What the doctor examines: a run, or an interrupted training with the weights of its newest checkpoint."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from chainrule.data.shards import TokenShards, has_shards
from chainrule.errors import UserError
from chainrule.models.contract import LanguageModel
from chainrule.runs.folder import HOME, RESUMABLE, Run, unfinished
from chainrule.text.base import Tokenizer
from chainrule.training.callbacks import Record
from chainrule.training.journal import LAST, events


@dataclass(frozen=True)
class Subject:
    """A run, or an interrupted training, with its model loaded."""

    path: Path  # its name, for people
    folder: Path
    architecture: str
    tokenizer: Tokenizer
    model: LanguageModel
    recipe: Record | None  # the settings of training; None: it counts, or was imported
    is_finished: bool

    @cached_property
    def happened(self) -> list[Record]:
        return list(events(self.folder / "metrics.jsonl"))

    def records(self, event: str) -> list[Record]:
        return [each for each in self.happened if each["event"] == event]

    def shards(self, name: str) -> TokenShards | None:
        """The tokens of 'train' or 'validation'; None where the run has no such text."""
        if not has_shards(self.folder / "tokens"):
            return None
        shards = TokenShards(self.folder / "tokens", name)
        return shards if shards.part.documents else None

    @property
    def quality(self) -> Record | None:
        """Loss and bits per byte of the validation text: at the end, or at the best evaluation so far."""
        last = self.records(LAST)
        if last:
            found: Record | None = last[-1]["validation"]
            return found
        measured = [each for each in self.records("evaluation") if each["loss"] is not None]
        return min(measured, key=lambda each: float(each["loss"]), default=None)

    def tokens(self, name: str, rows: int, length: int) -> np.ndarray | None:
        """Windows from all over a text, (rows, length), shorter if the text is; None where there is no text."""
        shards = self.shards(name)
        if shards is None:
            return None
        stream = shards.tokens(0)
        length = min(length, len(stream))
        starts = np.unique(np.linspace(0, len(stream) - length, rows).astype(np.int64))
        return stream[starts[:, None] + np.arange(length)].astype(np.int64)


def load_subject(name: str | Path) -> Subject:
    """The run of that name or, where there is none, the unfinished training."""
    path = Path(name)
    for each in (path, HOME / path):
        if not each.exists() and (unfinished(each) / RESUMABLE).is_file():
            return _load_unfinished(each)
    run = Run(path)
    recipe = run.config.get("training", {}).get("recipe")
    return Subject(run.path, run.path, run.architecture, run.tokenizer, run.model, recipe, True)


def _load_unfinished(path: Path) -> Subject:
    from chainrule.training.checkpoint import Checkpoints
    from chainrule.training.job import Job

    folder = unfinished(path)
    job = Job.read(folder)
    checkpoint = Checkpoints(folder).load()
    if checkpoint is None:
        raise UserError(f"the training of '{path}' has stored no checkpoint yet; look again in a minute")
    module, config, _ = job.build()
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    model = module.Model(config, tokenizer.vocabulary_size, tokenizer.eos)
    kind = "best/" if any(each.startswith("best/") for each in checkpoint.tensors) else "model/"
    weights = {each.removeprefix(kind): tensor for each, tensor in checkpoint.tensors.items() if each.startswith(kind)}
    model.load_state_dict(weights)
    return Subject(path, folder, job.architecture, tokenizer, model.eval(), job.recipe, False)
