"""A new task is one file, and what it reads is the business of its model's encoder alone: pixels in, words out.

Both files are written to a folder of their own; nothing else in the package knows of them.
"""

import json
import signal
from pathlib import Path

import numpy as np
import pytest

import chainrule.models
import chainrule.tasks
from chainrule.errors import Stopped, UserError
from chainrule.generation.beam import Beam
from chainrule.generation.search import search
from chainrule.runs.folder import Run
from chainrule.tasks.base import find_task
from chainrule.training.pipeline import resume, train
from chainrule.training.request import Request
from chainrule.training.trainer import Trainer
from tests.training.trainings import assert_same_tensors

MODEL = '''
"""A bitmap is encoded by one layer, whose output is the first state of a GRU that spells the word."""

from dataclasses import dataclass

import torch
from torch import nn

from chainrule.models._neural import NeuralModel


@dataclass(frozen=True)
class Config:
    width: int = 32


SIZES = {"tiny": Config()}
DEFAULT_SIZE = "tiny"
DEFAULT_TOKENIZER = "characters"
TASK = "glyphs"


class Model(NeuralModel):
    def __init__(self, config, vocabulary_size, eos):
        super().__init__(config, vocabulary_size, eos)
        self.encoder = nn.Sequential(nn.Flatten(), nn.LazyLinear(config.width), nn.Tanh())
        self.encoder(torch.zeros(1, 1, 5, 5))
        self.embedding = nn.Embedding(vocabulary_size, config.width)
        self.cell = nn.GRU(config.width, config.width, batch_first=True)
        self.out = nn.Linear(config.width, vocabulary_size)

    def start(self, batch_size, condition=None):
        return self.encoder(torch.as_tensor(condition["pixels"]))

    def read(self, tokens, state):
        hidden, last = self.cell(self.embedding(tokens), state[None].contiguous())
        return hidden, last[0]

    def output(self, hidden):
        return self.out(hidden)
'''

TASK = '''
"""Bitmaps of five by five pixels and the words for them, from a JSON file: [[word, pixels], ...]."""

import json
from pathlib import Path

import numpy as np

from chainrule.data.batches import TrainingBatch
from chainrule.data.pairs import as_documents
from chainrule.evaluation.validation import Validation, figures_of
from chainrule.generation.beam import Beam
from chainrule.generation.search import search
from chainrule.models.contract import IGNORE, Batch
from chainrule.tasks import base
from chainrule.text.choice import make_tokenizer


class Glyphs:
    def __init__(self, task, recipe):
        self.task, self.batch_size, self.seed = task, recipe.batch_size, recipe.seed
        self.length = max(len(ids) for ids in task.ids) + 1
        self.tokens_per_epoch = sum(len(ids) + 1 for ids in task.ids)
        self.tokens_per_step = self.tokens_per_epoch * self.batch_size / len(task.ids)

    def batch(self, step):
        rows = np.random.default_rng([self.seed, step]).integers(0, len(self.task.ids), self.batch_size)
        return self.task.collate(rows)

    def epochs(self, steps):
        return [steps * self.batch_size / len(self.task.ids)]


class Task(base.Task):
    models = ("glyph_reader",)
    command = "show"

    @classmethod
    def prepare(cls, material, settings, data, folder):
        glyphs = json.loads(Path(material.inputs[0]).read_text())
        words = [word for word, _ in glyphs]
        tokenizer = make_tokenizer([as_documents(words, "")], material.tokenization, material.default_tokenizer)
        tokenizer.save(folder / "tokenizer.json")
        (folder / base.FOLDER).mkdir()
        (folder / base.FOLDER / "glyphs.json").write_text(json.dumps(glyphs))
        size = sum(map(len, words))
        part = {"documents": len(words), "tokens": size + len(words), "bytes": size, "hash": "-"}
        data = {"inputs": list(material.inputs), "unit": "glyph", "text": {"train": part, "validation": part}}
        return base.Prepared(data, [str(path) for path in material.inputs])

    def __init__(self, folder):
        super().__init__(folder)
        glyphs = json.loads((folder / base.FOLDER / "glyphs.json").read_text())
        self.words = [word for word, _ in glyphs]
        self.pixels = np.array([pixels for _, pixels in glyphs], np.float32).reshape(-1, 1, 5, 5)
        self.ids = [self.tokenizer.encode(word) for word in self.words]

    def collate(self, rows):
        eos, length = self.tokenizer.eos, max(len(self.ids[row]) for row in rows) + 1
        inputs, targets = np.full((len(rows), length), eos), np.full((len(rows), length), IGNORE)
        for at, row in enumerate(rows):
            ids = self.ids[row]
            inputs[at, 1 : len(ids) + 1] = targets[at, : len(ids)] = ids
            targets[at, len(ids)] = eos
        return TrainingBatch(inputs, targets, condition={"pixels": self.pixels[rows]})

    def batches(self, recipe):
        return Glyphs(self, recipe)

    def validation(self, recipe):
        return self._validate

    def _validate(self, model):
        import torch

        batch = self.collate(np.arange(len(self.ids)))
        with torch.no_grad():
            loss = model.loss(Batch(batch.inputs, batch.targets, batch.condition))
        return Validation(figures_of(float(loss.mean), None), float(loss.mean))

    def evaluate(self, model, recipe):
        beams = [Beam(width=2, max_tokens=8)] * len(self.words)
        found = search(model, {"pixels": self.pixels}, self.tokenizer.eos, beams)
        spelled = [self.tokenizer.decode(each[0].words) for each in found]
        right = sum(word == each for word, each in zip(self.words, spelled, strict=True))
        figures = self._validate(model).figures
        return {**figures, "impossible_tokens": 0, "tokens": 1, "documents": len(self.words),
                "figures": {"accuracy": 100 * right / len(self.words)}}
'''

WORDS = ("bar", "ring", "cross", "dot", "edge", "field")


@pytest.fixture
def glyphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for package, name, text in ((chainrule.models, "glyph_reader", MODEL), (chainrule.tasks, "glyphs", TASK)):
        folder = tmp_path / package.__name__
        folder.mkdir()
        (folder / f"{name}.py").write_text(text)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    generator = np.random.default_rng(0)
    path = tmp_path / "glyphs.json"
    path.write_text(json.dumps([[word, generator.integers(0, 2, 25).tolist()] for word in WORDS]))
    return path


def request(glyphs: Path, path: Path, **settings: object) -> Request:
    settings = {"steps": 300, "batch_size": 8, "optimizer": "adamw", "learning_rate": 0.01, "evaluations": 3} | settings
    return Request(inputs=(str(glyphs),), task="glyphs", settings=settings, path=path)


def test_a_task_that_reads_pixels_is_learned_and_searched(glyphs, tmp_path):
    run = train(request(glyphs, tmp_path / "run"))
    assert run.metrics[-1]["validation"]["figures"] == {"accuracy": 100.0}
    task = find_task(run.task)(run.path)
    reopened = Run(run.path, task="glyphs").model
    found = search(reopened, {"pixels": task.pixels[[2, 0]]}, task.tokenizer.eos, [Beam(width=3, max_tokens=8)] * 2)
    assert [task.tokenizer.decode(each[0].words) for each in found] == ["cross", "bar"]


def test_it_is_resumed_to_the_same_weights(glyphs, tmp_path, monkeypatch):
    whole = train(request(glyphs, tmp_path / "whole", steps=20))
    step = Trainer.step

    def stop_at_seven(self: Trainer) -> None:
        step(self)
        if self.position.step == 7:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Trainer, "step", stop_at_seven)
        train(request(glyphs, tmp_path / "stopped", steps=20))
    again = resume(tmp_path / "stopped", {})
    assert_same_tensors(whole.model.state_dict(), again.model.state_dict())


def test_its_model_is_refused_for_other_tasks_and_other_models_for_it(glyphs, tmp_path):
    with pytest.raises(UserError, match="glyphs cannot be learned by lstm"):
        train(Request(inputs=(str(glyphs),), task="glyphs", model="lstm", path=tmp_path / "run"))
    with pytest.raises(UserError, match="glyph_reader is a model for glyphs, not for plain text"):
        train(Request(inputs=(str(glyphs),), model="glyph_reader", path=tmp_path / "run"))
