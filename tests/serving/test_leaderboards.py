"""/leaderboards: the tables of comparisons as they were written."""

import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import chainrule
from chainrule.serving.app import make_app
from chainrule.serving.model_provider import ModelProvider, find_runs
from chainrule.serving.scheduler import Scheduler
from chainrule.serving.service import Service


@pytest.fixture
def comparison(tmp_path: Path) -> Path:
    text = tmp_path / "cows.txt"
    text.write_text(
        "\n".join(f"the cow number {i} eats {'hay' if i % 3 else 'grass'} in the morning" for i in range(90))
    )
    chainrule.compare(text, models=["ngram:order=1", "ngram:order=2"], path=tmp_path / "cows")
    return tmp_path / "cows"


def ask(*paths: Path) -> list[dict]:
    runs, comparisons = find_runs([str(path) for path in paths])
    service = Service(ModelProvider(runs), Scheduler(), comparisons=comparisons)
    with TestClient(make_app(service), base_url="http://localhost") as client:
        answer = client.get("/leaderboards")
    assert answer.status_code == 200
    return answer.json()["data"]


def test_a_table_is_told_as_it_was_written_with_the_ids_of_what_is_served(comparison):
    (found,) = ask(comparison)
    written = json.loads((comparison / "report" / "table.json").read_text())
    assert [row.pop("id") for row in found["table"]["models"]] == ["ngram-2", "ngram-1"]
    assert found == {"name": "cows", "table": written}


def test_runs_that_were_there_before_have_their_ids(comparison, tmp_path, monkeypatch):
    """A table names them as the user did: without runs/, which is where a bare name is looked for."""
    monkeypatch.chdir(tmp_path)
    for order in (1, 2):
        chainrule.train("cows.txt", order=order, tokenizer="bytes", path=f"runs/order-{order}")
    chainrule.compare("cows.txt", models=["runs/order-1", "order-2"], path="runs/both")
    (found,) = ask(Path("runs/both"), Path("runs/order-1"), Path("runs/order-2"))
    assert {row["model"]: row["id"] for row in found["table"]["models"]} == {"order-1": "order-1", "order-2": "order-2"}


def test_a_comparison_without_a_table_yet_or_a_damaged_one_has_none(comparison):
    table = comparison / "report" / "table.json"
    table.write_text('{"models": [{"model": "ngram-1", "bits": NaN}], "verdict"')
    assert ask(comparison) == [{"name": "cows", "table": None}]
    table.write_text('{"models": [{"model": "ngram-1", "bits": NaN}]}')
    assert ask(comparison)[0]["table"]["models"] == [{"model": "ngram-1", "bits": None, "id": "ngram-1"}]
    table.unlink()
    assert ask(comparison) == [{"name": "cows", "table": None}]


def test_runs_alone_have_no_leaderboard(comparison):
    assert ask(comparison / "ngram-1") == []
