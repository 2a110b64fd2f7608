"""What takes a run works on every architecture in the folder, or refuses with a reason in one sentence.

Commands: show, evaluate, sample (drawn, beam, draft, int8), doctor, explain, plan, export, graph, compare, mix. Routes:
completions, chat, explain, dice, tokenize, models, trainings. An infinity-gram may find a text impossible, and is then
left out of a comparison. A causal convolution that only this file knows is among the architectures: one file is all
that a new one takes.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import chainrule
import chainrule.models
from chainrule import registry
from chainrule.cli.main import main
from chainrule.interop.base import exporters
from chainrule.models.contract import Counts
from chainrule.serving.app import make_app
from tests.contracts.test_models import ARCHITECTURES
from tests.serving.toys import toy_service

CONVOLUTION = '''
"""p(w | h) = softmax(V tanh(K * e(h))): a causal convolution over the last few tokens."""

from dataclasses import dataclass

import torch
from torch import nn

from chainrule.layers.roles import Role, declare
from chainrule.models._neural import NeuralModel


@dataclass(frozen=True)
class Config:
    width: int = 16
    reach: int = 3


SIZES = {"tiny": Config()}
DEFAULT_SIZE = "tiny"
DEFAULT_TOKENIZER = "bytes"


class Model(NeuralModel):
    def __init__(self, config, vocabulary_size, eos):
        super().__init__(config, vocabulary_size, eos)
        self.receptive_field = config.reach
        self.words = declare(Role.TOKEN_TABLE, nn.Embedding(vocabulary_size, config.width))
        self.filters = nn.Conv1d(config.width, config.width, config.reach)
        self.readout = declare(Role.OUTPUT, nn.Linear(config.width, vocabulary_size))

    def start(self, batch_size, condition=None):
        return torch.full((batch_size, self.config.reach - 1), self.eos)

    def read(self, tokens, state):
        before = self.start(tokens.shape[0]) if state is None else state
        ids = torch.cat([before, tokens], 1)
        hidden = torch.tanh(self.filters(self.words(ids).transpose(1, 2))).transpose(1, 2)
        return hidden, None if state is None else ids[:, tokens.shape[1] :]

    def output(self, hidden):
        return self.readout(hidden)
'''

TEXT = "".join(f"the {'red' if i % 3 else 'old'} cow eats {'hay' if i % 2 else 'grass'}\n" for i in range(60))
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The text, in a folder that also is one more folder of architectures."""
    folder = tmp_path_factory.mktemp("architectures")
    (folder / "convolution.py").write_text(CONVOLUTION)
    (folder / "cows.txt").write_text(TEXT)
    chainrule.models.__path__.append(str(folder))
    yield folder / "cows.txt"
    chainrule.models.__path__.remove(str(folder))
    sys.modules.pop("chainrule.models.convolution", None)


@pytest.fixture(scope="module", params=[*ARCHITECTURES, "convolution"])
def run(request: pytest.FixtureRequest, text: Path) -> Path:
    """A run of the architecture, of the smallest size."""
    name = request.param
    counts = issubclass(registry.find("chainrule.models", name, "model").Model, Counts)
    budget = {} if counts else {"steps": 3, "batch_size": 2}
    path = text.parent / name
    chainrule.train(text, model=name, size="tiny", tokenizer="bytes", unit="line", path=path, **budget)
    return path


@pytest.fixture(scope="module")
def bigram(text: Path) -> Path:
    """Another run of the same tokens, to mix with."""
    path = text.parent / "bigram"
    chainrule.train(text, order=2, tokenizer="bytes", unit="line", path=path)
    return path


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    """call("sample", path) -> (exit code, standard output, standard error), in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def called(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["chainrule", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        out, err = capsys.readouterr()
        return int(exit.value.code or 0), out, err

    return called


def test_it_is_shown_evaluated_sampled_and_examined(call: Call, run: Path, text: Path):
    code, out, err = call("show", run, "--json")
    assert code == 0 and json.loads(out)["config"]["architecture"] == run.name, err
    code, out, err = call("evaluate", run, text, "--json")
    figures = json.loads(out)
    assert code == 0 and ((figures["bits_per_byte"] or 0) > 0 or figures["impossible_tokens"]), err
    drawn = [call("sample", run, "--prompt", "the ", "--seed", 1, "--max-tokens", 5, *more) for more in ((), ("-n", 2))]
    assert [each[0] for each in drawn] == [0, 0]
    assert drawn[1][1].startswith(drawn[0][1].rstrip("\n")), "the first of several is the one alone"
    assert call("sample", run, "--prompt", "the ", "--beam", 2, "--max-tokens", 5)[0] == 0
    assert (
        call("sample", run, "--prompt", "the ", "--draft", "lookup", "--seed", 1, "--max-tokens", 5)[1] == drawn[0][1]
    )
    code, out, err = call("doctor", run, "--json")
    assert code == 0 and json.loads(out)["findings"], err


def test_it_is_explained_in_the_terminal_as_json_and_as_a_page(call: Call, run: Path, tmp_path: Path):
    assert call("explain", run, "the cow", "--html", tmp_path / "page.html")[0] == 0
    code, out, err = call("explain", run, "the cow", "--json")
    found = json.loads(out)
    assert code == 0 and 0 < found["probability"] <= 1, err
    assert f"{found['probability']:.4f}" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "arguments",
    [("plan", "RUN", "--json"), ("sample", "RUN", "--quantize", "int8", "--max-tokens", 3)]
    + [("export", "RUN", "--to", name) for name in exporters()]
    + [("graph", "--model", "NAME", "--length", 3, "--json")],
    ids=lambda arguments: " ".join(map(str, arguments[:1] + arguments[2:4])),
)
def test_it_is_done_or_refused_in_one_sentence(call: Call, run: Path, arguments: tuple[object, ...]):
    given = [run if each == "RUN" else run.name if each == "NAME" else each for each in arguments]
    code, _, err = call(*given)
    assert code in (0, 2), err
    if code == 2:
        assert err.startswith("chainrule: ") and err.count("\n") == 1


def test_it_is_compared_and_mixed(call: Call, run: Path, bigram: Path, text: Path):
    code, out, err = call("compare", text, "--models", f"{run} {bigram}", "--unit", "line", "--json")
    rows = {Path(row["model"]).name for row in json.loads(out)["models"]}
    assert code == 0 and (rows == {run.name, "bigram"} or f"{run}: inf bits per byte" in err), err
    code, out, err = call("mix", run, bigram, "--as", "mixed", "--json")
    if code == 2:
        assert err.count("\n") == 1
        return
    parts = json.loads(out)["validation"]["parts"]
    assert code == 0 and {part["architecture"] for part in parts} == {run.name, "ngram"}, err


def test_the_server_answers(run: Path):
    with TestClient(make_app(toy_service([run])), base_url="http://localhost") as client:
        sampled = {"prompt": "the ", "max_tokens": 4, "seed": 1}
        chat = {"messages": [{"role": "user", "content": "cow"}], "max_tokens": 4}
        answers = {
            "completions": client.post("/v1/completions", json=sampled),
            "scores": client.post("/v1/completions", json=sampled | {"echo": True, "logprobs": 2, "max_tokens": 0}),
            "chat": client.post("/v1/chat/completions", json=chat),
            "explain": client.post("/explain", json={"prompt": "the cow"}),
            "dice": client.post("/dice", json={"roll": 0.5, "columns": [{"prompt": "the cow"}]}),
            "tokenize": client.post("/tokenize", json={"prompt": "the cow"}),
            "models": client.get("/v1/models"),
            "trainings": client.get("/trainings"),
        }
    assert {name: answer.status_code for name, answer in answers.items() if answer.status_code >= 500} == {}
    for name in ("completions", "scores", "chat", "explain", "dice", "tokenize", "models", "trainings"):
        assert answers[name].status_code == 200, (name, answers[name].text)
    drawn = chainrule.load(run).samples("the ", seed=1, max_tokens=4)[0].text
    assert answers["completions"].json()["choices"][0]["text"] == drawn
