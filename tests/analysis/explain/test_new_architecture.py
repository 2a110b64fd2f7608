"""An architecture of one file is explained everywhere, without a line outside that file."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

import chainrule
from chainrule.analysis.explain.explanation import explain
from chainrule.api import TrainedRun
from chainrule.cli.main import main
from chainrule.models.explanation import LooksInside, Series
from chainrule.serving.app import make_app
from tests import architectures
from tests.serving.toys import toy_service

OWN_TERMS = """
    def look_inside(self, ids, token, token_text):
        from chainrule.models.explanation import Series

        with torch.no_grad():
            hidden, _ = self.read(torch.as_tensor(ids)[None], None)
        return Series("Filters & tokens", {"first <filter>": hidden[0, :, 0].tolist()})
"""
TEXT, PROMPT, REACH = "the cow eats hay\n" * 40, "the cow eats", 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Beside the convolution of the tests one more, `filters`, with terms of its own and no declared table."""
    folder = tmp_path_factory.mktemp("architectures")
    convolution = (architectures.FOLDER / "convolution.py").read_text(encoding="utf-8")
    undeclared = convolution.replace("declare(Role.TOKEN_TABLE, ", "(")
    assert undeclared != convolution
    (folder / "filters.py").write_text(undeclared + OWN_TERMS, encoding="utf-8")
    with architectures.added(folder):
        yield folder


@pytest.fixture(scope="module")
def run(folder: Path) -> TrainedRun:
    (folder / "cows.txt").write_text(TEXT)
    return chainrule.train(
        folder / "cows.txt", path=folder / "run", model="convolution", unit="line", steps=40,
        batch_size=4, window=16, validation_fraction=0.0,
    )  # fmt: skip


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["chainrule", *map(str, arguments)])
    with pytest.raises(SystemExit) as exit:
        main()
    return int(exit.value.code or 0)


def test_the_terminal_json_and_page_agree(
    run: TrainedRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    page = tmp_path / "page.html"
    assert call(monkeypatch, "explain", run.path, PROMPT, "--html", page) == 0
    told = capsys.readouterr().out
    assert call(monkeypatch, "explain", run.path, PROMPT, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert f"{found['probability']:.6g} (convolution)" in told
    assert f"{found['importance']['gradient'][-1]:+.3f}" in told
    assert f"{found['probability']:.4f}" in page.read_text() and "Gradient times input" in page.read_text()
    assert f"{found['probability']:.4f}" in run.explain(PROMPT)._repr_html_()
    assert (found["kind"], found["inside"], found["evidence"], found["notes"]) == (None, None, None, [])


def test_general_figures_are_the_models_own(run: TrainedRun):
    """Surprise is -log2 p of what came; what is out of the filter's reach has no importance, by either measure."""
    found = run.explain(PROMPT)
    ids = np.append([run.tokenizer.eos], run.tokenizer.encode(PROMPT)).astype(np.int64)
    assert found.surprise == pytest.approx((-run.model.score(ids) / np.log(2)).tolist(), abs=1e-4)
    importance = found.importance
    assert importance.gradient is not None
    for figures in (importance.left_out, importance.gradient):
        assert figures[:-REACH] == [0.0] * (len(ids) - 1 - REACH)
        assert any(each is not None and abs(each) > 1e-3 for each in figures[-REACH:])


def test_the_route_answers(run: TrainedRun):
    with TestClient(make_app(toy_service([run.path])), base_url="http://localhost") as client:
        answer = client.post("/explain", json={"prompt": PROMPT})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    assert (told["kind"], told["inside"]) == (None, None)
    assert told["probability"] == pytest.approx(run.explain(PROMPT).probability, abs=1e-6)


def test_terms_of_its_own_are_shown_and_gradients_are_left_out_with_a_note(run: TrainedRun):
    import io

    from rich.console import Console

    from chainrule import registry
    from chainrule.analysis.explain.terminal import sections

    module = registry.find("chainrule.models", "filters", "model")
    model = module.Model(module.SIZES["tiny"], run.tokenizer.vocabulary_size, run.tokenizer.eos).eval()
    assert isinstance(model, LooksInside)
    found = explain(model, run.tokenizer, PROMPT)
    assert isinstance(found.inside, Series)
    assert found.importance.gradient is None
    assert found.notes == ["importance by gradient is not available, as this model declares no token embedding"]
    figures = found.inside.figures["first <filter>"]
    assert len(figures) == len(found.tokens)
    console = Console(width=160, record=True, file=io.StringIO())
    for section in sections(found):
        console.print(section)
    told = console.export_text()
    assert "Filters & tokens" in told and "first <filter>" in told and f"{figures[-1]:.3f}" in told
    for html in (found.html(), found._repr_html_()):
        assert "Filters &amp; tokens" in html and "first &lt;filter&gt;" in html
        assert f'title="{figures[-1]:.4f}"' in html
    told_json = json.loads(json.dumps(found.to_json()))
    assert (told_json["kind"], told_json["inside"]["figures"]["first <filter>"]) == ("series", figures)
