"""/explain tells what explaining from Python tells, of every kind, cut to what a page can show."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

import chainrule
from chainrule.serving.app import make_app
from tests.serving.toys import TOY_TEXT, toy_service

TEXT = "On day 7 the red cow"


@pytest.fixture(scope="module")
def short_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A Transformer of words whose tables have n-grams of up to four of them."""
    folder = tmp_path_factory.mktemp("short")
    (folder / "cows.txt").write_text(TOY_TEXT, encoding="utf-8")
    settings = {"tokenizer": "words", "ngram_order": 4, "steps": 2, "batch_size": 2}
    chainrule.train(folder / "cows.txt", model="transformer", size="tiny", path=folder / "words", **settings)
    with TestClient(make_app(toy_service([folder / "words"])), base_url="http://localhost") as client:
        yield client


def ask(toy_client: TestClient, **body: Any) -> dict[str, Any]:
    answer = toy_client.post("/explain", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize(("place", "kind"), [(0, "ladder"), (1, "gates"), (2, "transformer")])
def test_it_is_the_explanation_that_python_gives(toy_client: TestClient, toys: list[Path], place: int, kind: str):
    told = ask(toy_client, model=toys[place].name, prompt=TEXT, temperature=0.5)
    found = chainrule.load(toys[place]).explain(TEXT, temperature=0.5).to_json()
    assert told["kind"] == kind
    for name in ("token", "tokens", "text", "evidence", "separator"):
        assert told[name] == found[name]
    assert told["surprise"] == pytest.approx(found["surprise"], abs=1e-5)
    assert [each["filtered"] for each in told["distribution"]["top"]] == pytest.approx(
        [each["filtered"] for each in found["distribution"]["top"]], abs=1e-6
    )


def test_a_ladder_adds_up_to_the_probability_and_comes_with_lines_of_the_corpus(toy_client: TestClient):
    told = ask(toy_client, model="ngram", prompt=TEXT, token=" eats")
    contributions = [rung["contribution"] for rung in told["inside"]["rungs"]]
    assert sum(contributions) == pytest.approx(told["probability"], abs=1e-6)
    sighting = told["evidence"]["sightings"][0]
    assert sighting["found"].endswith(" eats") and "cow" in sighting["found"]
    assert sighting["path"].endswith("cows.txt")


def test_attention_and_states_are_of_the_latest_tokens_and_first_units(toy_client: TestClient, toys: list[Path]):
    long = " ".join([TEXT] * 20)
    whole = chainrule.load(toys[1]).explain(long)
    told = ask(toy_client, model="lstm", prompt=long)
    for layer, full in zip(told["inside"]["layers"], whole.inside.layers, strict=True):  # type: ignore[union-attr]
        assert np.array(layer["state"]["h"]) == pytest.approx(full.state["h"][-64:, :64], abs=1e-4)
        assert len(layer["state"]["h"]) == 64
    told = ask(toy_client, model="transformer", prompt=TEXT)
    attention = np.array(told["inside"]["attention"])
    assert attention.sum(-1) == pytest.approx(np.ones(attention.shape[:3]), abs=2e-2)
    assert (np.triu(attention[0, 0], 1) == 0).all()


def test_ids_are_explained_as_they_are(toy_client: TestClient, toys: list[Path]):
    tokenizer = chainrule.load(toys[2]).tokenizer
    ids = [tokenizer.eos, *tokenizer.encode(TEXT).tolist()]
    by_text, by_ids = (ask(toy_client, model="transformer", prompt=prompt, token=ids[-1]) for prompt in (TEXT, ids))
    assert by_ids["token"] == tokenizer.token_text(ids[-1]) == by_text["token"]
    assert by_ids["probability"] == by_text["probability"]
    letters = [tokenizer.eos, *(int(tokenizer.encode(letter)[0]) for letter in "cow")]  # no text gives these ids
    assert ask(toy_client, model="transformer", prompt=letters)["tokens"] == ["<eos>", "c", "o", "w"]


@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_a_prompt_shorter_than_the_longest_hashed_ngram(short_client: TestClient, length: int):
    prompt = " ".join("the red cow".split()[:length])
    told = ask(short_client, prompt=prompt)
    assert [word.strip() for word in told["tokens"]] == ["<eos>", *prompt.split()]
    assert len(told["importance"]["gradient"]) == length  # without <eos>


def test_the_former_name_of_top_is_understood(toy_client: TestClient):
    by_top, by_faces = (ask(toy_client, model="ngram", prompt=TEXT, **{name: 3}) for name in ("top", "faces"))
    assert by_top == by_faces
    assert len(by_top["distribution"]["top"]) == 3


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"token": 10**6}, "token ids"),
        ({"top": 51}, "top"),
        ({"token": ""}, "is not a token"),
        ({"prompt": []}, "prompt"),
    ],
)
def test_what_cannot_be_explained_is_told(toy_client: TestClient, body: Any, said: str):
    answer = toy_client.post("/explain", json={"prompt": "the"} | body)
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]
