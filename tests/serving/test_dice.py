"""/dice and /rolls against the sampler itself: the same line, the same number, the same tokens."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient

import chainrule
from chainrule.generation import Sampling
from chainrule.generation.decoder import Decoder
from chainrule.generation.draw import draw_ids
from chainrule.generation.processors import LogitsProcessor
from chainrule.generation.prompt import Prompt
from chainrule.serving.app import make_app
from chainrule.serving.dice import tokens_in_context
from tests.serving.toys import toy_service
from tests.text.samples import train

KINDS = ("ngram", "lstm", "transformer")
FILTERS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.7, "top_k": 5},
    {"temperature": 1.3, "top_p": 0.8, "repetition_penalty": 1.5},
    {"min_p": 0.1},
    {"temperature": 0.0},
]


def roll(toy_client: TestClient, **body: Any) -> dict[str, Any]:
    answer = toy_client.post("/dice", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize("filters", FILTERS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_drawn_is_what_the_sampler_draws(toy_client: TestClient, toys: list[Path], kind: str, filters: Any):
    run = chainrule.load(toys[KINDS.index(kind)])
    ids = np.append(run.tokenizer.eos, run.tokenizer.encode("On day 7 the red cow")).astype(np.int64)
    logits = Decoder(run.model, ids).logits
    settings = Sampling(**({"temperature": 1.0} | filters))
    processed = LogitsProcessor(settings, ids.tolist(), ())(logits[0])
    for uniform in np.linspace(0, 0.999, 23).tolist():
        column = roll(toy_client, columns=[{"model": kind, "prompt": ids.tolist()}], roll=uniform, **filters)[
            "columns"
        ][0]
        drawn = column["drawn"]
        assert drawn["id"] == draw_ids(processed[None], settings, np.array([uniform]))[0]
        assert drawn["begin"] - 1e-12 <= uniform < drawn["end"] + 1e-12


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_faces_lie_on_the_line_in_the_order_of_ids_and_fill_it(toy_client: TestClient, filters: Any):
    column = roll(toy_client, columns=[{"model": "transformer", "prompt": "the"}], roll=0.5, faces=50, **filters)[
        "columns"
    ][0]
    faces, others = column["faces"], column["others"]
    assert sum(face["probability"] for face in faces) + others["probability"] == pytest.approx(1, abs=1e-9)
    assert sum(face["filtered"] for face in faces) + others["filtered"] == pytest.approx(1, abs=1e-9)
    kept = sorted((face for face in faces if face["filtered"]), key=lambda face: face["id"])
    assert all(before["end"] <= after["begin"] + 1e-12 for before, after in pairwise(kept))
    assert [face["probability"] for face in faces] == sorted((f["probability"] for f in faces), reverse=True)


def test_without_filters_the_line_is_the_models_own_distribution(toy_client: TestClient):
    for face in roll(toy_client, columns=[{"model": "lstm", "prompt": "the "}], roll=0.1, faces=50)["columns"][0][
        "faces"
    ]:
        assert face["filtered"] == pytest.approx(face["probability"], abs=1e-6)


def test_entropy_is_that_of_the_die(toy_client: TestClient, toys: list[Path]):
    run = chainrule.load(toys[1])
    ids = np.append(run.tokenizer.eos, run.tokenizer.encode("the c")).astype(np.int64)
    logits = Decoder(run.model, ids).logits[0].astype(np.float64)
    chances = np.exp(logits) / np.exp(logits).sum()
    column = roll(toy_client, columns=[{"model": "lstm", "prompt": "the c"}], roll=0.1)["columns"][0]
    assert column["ids"] == ids.tolist()
    assert column["entropy_bits"] == pytest.approx(-(chances * np.log2(chances)).sum(), abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_stepping_with_the_rolls_of_a_seed_gives_the_completion_of_that_seed(toy_client: TestClient, kind: str):
    """Beyond the 32 tokens that the Transformer reads, too."""
    asked = {"model": kind, "prompt": "On day 7", "seed": 5, "max_tokens": 60, "temperature": 0.9}
    choice = toy_client.post("/v1/completions", json=asked | {"return_token_ids": True}).json()["choices"][0]
    rolls = toy_client.get("/rolls", params={"seed": 5, "count": 60}).json()["rolls"]
    prompt: str | list[int] = "On day 7"
    drawn = []
    for uniform in rolls:
        column = roll(toy_client, columns=[{"model": kind, "prompt": prompt}], roll=uniform, temperature=0.9)[
            "columns"
        ][0]
        drawn.append(column["drawn"]["id"])
        prompt = [*column["ids"], drawn[-1]]
        if column["drawn"]["is_end"]:
            break
    assert drawn == choice["token_ids"]


def test_a_space_at_the_end_of_a_text_belongs_to_the_next_token(toy_client: TestClient):
    column = roll(toy_client, columns=[{"model": "transformer", "prompt": "the "}], roll=0.5, faces=50)["columns"][0]
    assert column["text"] == "the "
    assert all(face["token"].startswith(" ") for face in column["faces"])


def test_texts_shown_token_by_token_join_to_the_text():
    """Within white space and spelled words too, of which the space that is added to them is not shown."""
    tokenizer = train("words", ["the cow eats hay, the cow"])
    ids = [tokenizer.eos, *tokenizer.encode("the\n xyz\n\nxyz the  cow\tcow é").tolist()]
    texts = [
        Prompt(np.array(ids[:end]), tokenizer.decode(ids[:end])).continuation(tokenizer, is_shown=False).feed(ids[end])
        for end in range(1, len(ids))
    ]
    assert "".join(texts) == tokenizer.decode(ids)


def test_of_a_text_too_long_the_latest_tokens_are_read(toy_client: TestClient, toys: list[Path]):
    long = " and then".join(["On day 7 the red cow eats hay"] * 20)
    ids = chainrule.load(toys[2]).tokenizer.encode(long).tolist()
    column = roll(toy_client, columns=[{"model": "transformer", "prompt": long}], roll=0.5)["columns"][0]
    assert len(ids) > 32 and column["ids"] == ids[-32:]


def test_a_model_that_cannot_go_on_leaves_the_others_alone(toys: list[Path]):
    service = toy_service(toys)
    with torch.no_grad():
        next(service.models.find("lstm").model.parameters()).fill_(torch.nan)
    with TestClient(make_app(service), base_url="http://localhost") as toy_client:
        columns = [{"model": model, "prompt": "the"} for model in ("lstm", "ngram")]
        broken, whole = roll(toy_client, columns=columns, roll=0.5)["columns"]
    assert broken["model"] == "lstm" and "not finite" in broken["error"]
    assert sum(face["filtered"] for face in whole["faces"]) + whole["others"]["filtered"] == pytest.approx(1)


def test_a_full_state_begins_anew_with_half():
    assert [tokens_in_context(length, None) for length in (1, 1000)] == [1, 1000]
    assert [tokens_in_context(length, 4) for length in range(1, 12)] == [1, 2, 3, 4, 2, 3, 4, 2, 3, 4, 2]


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/dice", {"columns": [], "roll": 0.5}, "columns"),
        ("/dice", {"columns": [{}], "roll": 1.0}, "roll"),
        ("/dice", {"columns": [{"prompt": []}], "roll": 0.5}, "columns"),
        ("/dice", {"columns": [{"prompt": [10**6]}], "roll": 0.5}, "token ids"),
        ("/dice", {"columns": [{"model": "lstn"}], "roll": 0.5}, "lstm"),
    ],
)
def test_what_cannot_be_rolled_is_told(toy_client: TestClient, path: str, body: Any, said: str):
    answer = toy_client.post(path, json=body)
    assert answer.status_code in (400, 404)
    assert said in answer.json()["error"]["message"]


@pytest.mark.parametrize("query", ["", "seed=-1", "seed=1&count=0", "seed=9999999999999999999999", "seed=1&count=1e9"])
def test_wrong_questions_for_rolls_are_told(toy_client: TestClient, query: str):
    assert toy_client.get(f"/rolls?{query}").status_code == 400


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/dice", {"columns": [{"model": "ngram", "prompt": [[]] * 50_000}]}),
        ("/dice", {"columns": [{"model": 1}] * 50_000}),
        ("/explain", {"model": "ngram", "prompt": ["x"] * 50_000}),
        ("/compare", {"text": "a", "models": [1] * 50_000}),
    ],
    ids=["ids", "columns", "explained ids", "models"],
)
def test_much_that_is_wrong_is_refused_at_the_first_of_it(toy_client: TestClient, path: str, body: Any):
    answer = toy_client.post(path, json=body)
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert message.startswith("the field '") and len(message) < 400, message
