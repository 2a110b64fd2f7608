"""config.json and metrics.jsonl: what was written is read, old names are today's, and damage is one sentence."""

import json
from pathlib import Path

import pytest

from chainrule.errors import UserError
from chainrule.runs.records import (
    DataConfig,
    RunConfig,
    TrainedEvent,
    append_event,
    parse_event,
    read_config,
    read_events,
    write_config,
)

DATA: DataConfig = {"inputs": ["poems.txt"], "unit": "line"}
CONFIG: RunConfig = {
    "chainrule": "0.2.0",
    "architecture": "ngram",
    "model": {"order": 5},
    "tokenizer": {"kind": "bytes", "vocabulary_size": 257, "is_closed": False, "hash": "ab"},
    "data": DATA,
    "started_at": "2026-11-18T06:00:00Z",
    "notes": ["a note"],
}
TRAINED: TrainedEvent = {"event": "trained", "validation": None, "seconds": 1.5, "parameters": 7}


def test_a_configuration_is_read_as_it_was_written(tmp_path: Path):
    write_config(tmp_path, CONFIG)
    assert read_config(tmp_path) == CONFIG


def test_keys_that_came_later_may_be_missing(tmp_path: Path):
    old = {"architecture": "ngram", "model": {}, "tokenizer": {"hash": "ab"}, "data": {"inputs": []}}
    (tmp_path / "config.json").write_text(json.dumps(old))
    assert read_config(tmp_path) == old


@pytest.mark.parametrize(
    "change",
    [
        {"architecture": 3},
        {"model": []},
        {"tokenizer": {}},
        {"tokenizer": "bytes"},
        {"data": {"inputs": "poems.txt"}},
        {"data": {"inputs": [3]}},
        {"notes": "a note"},
    ],
)
def test_a_configuration_with_something_else_in_its_place_is_damaged(tmp_path: Path, change: dict[str, object]):
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, **change}))
    with pytest.raises(UserError, match=r"config.json' is damaged; train the run again$"):
        read_config(tmp_path)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"{}", b"null", b"\xff"])
def test_a_file_that_is_no_configuration_is_damaged(tmp_path: Path, text: bytes):
    (tmp_path / "config.json").write_bytes(text)
    with pytest.raises(UserError, match="is damaged; train the run again"):
        read_config(tmp_path)


def test_events_are_read_in_the_order_they_were_written(tmp_path: Path):
    assert list(read_events(tmp_path)) == []
    append_event(tmp_path, {"event": "sample", "step": 3, "text": "the cow"})
    append_event(tmp_path, TRAINED)
    assert list(read_events(tmp_path)) == [{"event": "sample", "step": 3, "text": "the cow"}, TRAINED]


def test_a_probe_under_its_old_name_is_read_as_a_probe():
    contexts = [{"context": "the", "token": " cow", "probability": 0.5, "faces": [[" cow", 0.5]]}]
    line = json.dumps({"event": "glimpse", "step": 1, "contexts": contexts}).encode()
    expected = {"context": "the", "token": " cow", "probability": 0.5, "top": [[" cow", 0.5]]}
    assert parse_event(line) == {"event": "probe", "step": 1, "contexts": [expected]}


@pytest.mark.parametrize("line", ["{", "[]", "3", '{"step": 1}', '{"event": "glimpse"}'])
def test_a_line_that_is_no_event_is_damage(tmp_path: Path, line: str):
    append_event(tmp_path, TRAINED)
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write(line + "\n")
    with pytest.raises(UserError, match=r"metrics.jsonl' is damaged; train the run again"):
        list(read_events(tmp_path))
