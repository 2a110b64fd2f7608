"""A run of preferences is a language model, too: whatever takes a run of conversations takes it."""

import json
from pathlib import Path

import pytest

import chainrule
from tests.contracts.runs import STEPS
from tests.contracts.test_commands import Case, assert_one_sentence, case  # noqa: F401
from tests.contracts.test_dialogue import (  # noqa: F401
    test_commands,
    test_exports,
    test_routes,
    test_the_server_answers_as_a_conversation_is_answered,
    text,
)
from tests.tasks.chats import colours, write


def write_pairs(path: Path, count: int = 40, seed: int = 0) -> Path:
    lines = [
        {"prompt": talk[0][1], "chosen": talk[1][1], "rejected": "Who knows?"} for talk in colours(count, seed=seed)
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(text: Path) -> Path:  # noqa: F811
    """Its folder has the name of its architecture, as the checks of all runs want it."""
    chats, pairs = write(text.parent / "chats.jsonl", colours(40)), write_pairs(text.parent / "pairs.jsonl")
    start = chainrule.train_dialogue(
        chats, size="llama-tiny", tokenizer="bpe", validated=4, path=text.parent / "base", **STEPS
    )
    path = text.parent / "transformer"
    chainrule.train_preferences(pairs, start.path, path=path, **STEPS)
    return path


def test_it_is_measured_by_its_preferences_and_by_text(case: Case):  # noqa: F811
    kept = case("evaluate", "{run}")
    assert kept[0] == 0 and kept[1].startswith("text     validation\nquality  accuracy ")
    pairs = write_pairs(case.run.parent / "new.jsonl", 10, seed=5)
    found = json.loads(case("evaluate", "{run}", str(pairs), "--json")[1])
    assert (found["unit"], found["documents"]) == ("pair", 10)
    assert set(found["figures"]) == {"accuracy", "chosen likelier", "margin", "preference loss"}
    assert "bits per byte" in case("evaluate", "{run}", "{text}")[1]
    refused = case("evaluate", "{run}", "--documents")
    assert_one_sentence(refused)
