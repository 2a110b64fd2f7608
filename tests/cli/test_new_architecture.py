"""An architecture that nobody knows of, one file, works in every command or is refused in one sentence."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import chainrule.models as models

# Causal convolutions; no module is called as in other architectures.
CONVOLUTION = '''
"""p(w | h) = softmax(V relu(K * e(h))): a convolution over the last few words."""

from dataclasses import dataclass

import torch
from torch import nn

from chainrule.layers.roles import Role, declare
from chainrule.models._neural import NeuralModel


@dataclass(frozen=True)
class Config:
    width: int = 32
    reach: int = 3


SIZES = {"tiny": Config(width=16)}
DEFAULT_SIZE = "tiny"
DEFAULT_TOKENIZER = "bytes"


class Model(NeuralModel):
    def __init__(self, config, vocabulary_size, eos):
        super().__init__(config, vocabulary_size, eos)
        self.receptive_field = config.reach
        self.words = declare(Role.TOKEN_TABLE, nn.Embedding(vocabulary_size, config.width))
        self.filters = nn.Conv1d(config.width, config.width, config.reach)
        self.squash = nn.ReLU()
        self.readout = declare(Role.OUTPUT, nn.Linear(config.width, vocabulary_size))

    def start(self, batch_size, condition=None):
        return torch.full((batch_size, self.config.reach - 1), self.eos)

    def read(self, tokens, state):
        before = self.start(tokens.shape[0]) if state is None else state
        ids = torch.cat([before, tokens], 1)
        hidden = self.squash(self.filters(self.words(ids).transpose(1, 2)).transpose(1, 2))
        return hidden, None if state is None else ids[:, tokens.shape[1] :]

    def output(self, hidden):
        return self.readout(hidden)
'''


@pytest.fixture
def convolution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "architectures"
    folder.mkdir()
    (folder / "convolution.py").write_text(CONVOLUTION)
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(folder)])
    importlib.invalidate_caches()
    yield
    sys.modules.pop("chainrule.models.convolution", None)


@pytest.fixture
def runs(chainrule, cows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, convolution: None) -> None:
    """A convolution and an n-gram of the same tokens."""
    monkeypatch.chdir(tmp_path)
    settings = ("--model", "convolution", "--steps", 5, "--validation-fraction", 0.3)
    code, _, err = chainrule("train", cows, *settings, "--as", "runs/convolution")
    assert code == 0, err
    assert chainrule("train", cows, "--tokenizer", "bytes", "--validation-fraction", 0.3, "--as", "runs/ngram")[0] == 0


def test_the_doctor_examines_it_and_it_is_planned_by_the_number_of_its_parameters(chainrule, runs: None):
    code, out, err = chainrule("doctor", "runs/convolution", "--json")
    assert code == 0, err
    findings = {each["name"]: each for each in json.loads(out)["findings"]}
    assert {"learning rate", "quality"} <= findings.keys()
    depth = next(each for name, each in findings.items() if name.startswith("gradients"))
    assert "at filters" in depth["found"] and "at words" in depth["found"]
    assert any(name in findings for name in ("units", "dead units")), "those of its nn.ReLU"
    assert Path("runs/convolution/report/depth.svg").is_file()
    code, out, err = chainrule("plan", "runs/convolution", "--json", "--machine", "a100")
    assert code == 0, err
    plan = json.loads(out)
    assert plan["model"]["parameters"]["total"] == 257 * 16 + 16 * 16 * 3 + 16 + 16 * 257 + 257
    assert plan["model"]["shape"] is None and plan["compute"]["tokens"] > 0
    code, _, err = chainrule("plan", "runs/convolution", "--context-length", 10)
    assert code == 2 and "is not a Transformer" in err and err.count("\n") == 1


def test_it_is_compared_and_mixed(chainrule, runs: None, cows: Path):
    arguments = ("--models", "convolution:steps=5 runs/convolution ngram:order=2", "--tokenizer", "bytes", "--json")
    code, out, err = chainrule("compare", cows, *arguments)
    assert code == 0, err
    rows = {row["model"]: row for row in json.loads(out)["models"]}
    assert rows.keys() == {"convolution-steps=5", "convolution", "ngram-2"}
    for by in ("all", "entropy"):
        code, out, err = chainrule("mix", "runs/convolution", "runs/ngram", "--by", by, "--as", f"runs/{by}", "--json")
        assert code == 0, err
        figures = json.loads(out)["validation"]
        assert figures["loss"] <= min(part["loss"] for part in figures["parts"]) + 1e-3


def test_it_is_exported_or_refused(chainrule, runs: None):
    for format in ("huggingface", "gguf", "arpa"):
        code, _, err = chainrule("export", "runs/convolution", "--to", format)
        assert code == 2 and err.count("\n") == 1
        assert "onnx" in err, "which takes it"
        assert not list(Path().glob(".*unfinished")), "nothing is left behind"
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    code, out, err = chainrule("export", "runs/convolution", "--to", "onnx")
    assert (code, out.strip()) == (0, "convolution-onnx"), err
    assert "checked with onnxruntime" in err
