"""/trainings: the journals that are there, as they are, and nothing else of the disk."""

import fcntl
import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import chainrule
from chainrule.serving.app import make_app
from chainrule.serving.trainings import MOST_STEPS, thinned
from tests.serving.toys import toy_service


@pytest.fixture
def home(tmp_path: Path) -> Path:
    text = tmp_path / "cows.txt"
    text.write_text("\n".join(f"the cow number {i} eats hay" for i in range(60)))
    chainrule.train(text, model="gru", size="tiny", tokenizer="characters", steps=9, path=tmp_path / "runs" / "gru")
    chainrule.train(text, model="ngram", order=2, path=tmp_path / "runs" / "ngram")
    return tmp_path / "runs"


@pytest.fixture
def client(home: Path) -> Iterator[TestClient]:
    with TestClient(make_app(toy_service([home / "gru", home / "ngram"])), base_url="http://localhost") as found:
        yield found


def events_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def test_the_journal_of_a_run_is_told_as_it_is(client, home):
    found = client.get("/trainings/gru").json()
    assert found["status"] == "done"
    assert found["data"] == events_of(home / "gru")
    assert found["events"] == len(found["data"])
    rest = client.get("/trainings/gru", params={"since": 4}).json()
    assert rest["data"] == found["data"][4:]
    assert client.get("/trainings/gru", params={"since": found["events"]}).json()["data"] == []


def test_a_journal_that_was_taken_back_is_told_anew(client):
    whole = client.get("/trainings/gru").json()
    again = client.get("/trainings/gru", params={"since": whole["events"] + 1}).json()
    assert (again["begin"], again["data"]) == (0, whole["data"])


def test_the_table_has_the_latest_figures(client, home):
    gru, ngram = client.get("/trainings").json()["data"]
    events = events_of(home / "gru")
    last_step = [each for each in events if each["event"] == "step"][-1]
    assert (gru["name"], gru["status"], gru["step"], gru["loss"]) == ("gru", "done", 9, last_step["loss"])
    assert gru["validation_bits_per_byte"] == events[-1]["validation"]["bits_per_byte"]
    assert gru["probes"] == sum(each["event"] == "probe" for each in events) > 3
    assert (ngram["name"], ngram["learns"], ngram["step"]) == ("ngram", False, None)
    assert ngram["validation_bits_per_byte"] == events_of(home / "ngram")[-1]["validation"]["bits_per_byte"]


def test_a_training_under_way_is_found_followed_and_kept_when_it_ends(client, home):
    folder = home / ".new.unfinished"
    folder.mkdir()
    step = {"event": "step", "step": 1, "loss": 2.5, "progress": 0.25, "seconds": 1.0, "tokens_per_second": 10}
    (folder / "metrics.jsonl").write_text(json.dumps(step) + "\n" + '{"event": "st')
    assert client.get("/trainings/new").json()["status"] == "stopped"
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    listed = client.get("/trainings").json()["data"]
    assert [each["name"] for each in listed] == ["gru", "ngram", "new"]
    assert (listed[2]["status"], listed[2]["loss"], listed[2]["progress"]) == ("training", 2.5, 0.25)
    assert client.get("/trainings/new").json()["data"] == [step]
    with open(folder / "metrics.jsonl", "w") as file:
        file.write(json.dumps(step) + "\n" + json.dumps(step | {"step": 2}) + "\n")
    assert [each["step"] for each in client.get("/trainings/new", params={"since": 1}).json()["data"]] == [2]
    os.close(descriptor)
    folder.rename(home / "new")
    assert client.get("/trainings/new").json()["status"] == "done"


def test_a_training_that_will_replace_a_run_is_shown_in_its_place(client, home):
    folder = home / ".gru.unfinished"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text('{"event": "begin", "architecture": "lstm"}\n')
    assert client.get("/trainings").json()["data"][0]["architecture"] == "lstm"


@pytest.mark.parametrize("name", ["nothing", "../runs/gru", "..%2Fruns%2Fgru", ".gru.unfinished", "%00", "x" * 500])
def test_names_are_never_paths(client, name):
    answer = client.get(f"/trainings/{name}")
    assert answer.status_code == 404
    assert len(answer.json()["error"]["message"]) < 200


def test_a_wrong_since_gets_a_sentence(client):
    for since in ("-1", "x", str(2**60)):
        assert client.get("/trainings/gru", params={"since": since}).status_code == 400


def test_of_many_steps_some_are_told_evenly_and_the_last_always():
    events = [{"event": "step", "step": number} for number in range(2001)]
    events[1000:1000] = [{"event": "evaluation", "step": 1000}]
    kept = thinned(events)
    steps = [each["step"] for each in kept if each["event"] == "step"]
    assert len(steps) == MOST_STEPS
    assert steps[-1] == 2000
    assert {b - a for a, b in pairwise(steps)} <= {4, 5}
    assert {"event": "evaluation", "step": 1000} in kept
    assert thinned(events[:400]) == events[:400]
