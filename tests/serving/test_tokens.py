"""Text to ids and back."""

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from chainrule.api import TrainedRun
from chainrule.serving.app import make_app
from tests.serving.conftest import Client, error_of
from tests.serving.toys import toy_service

URL = "http://127.0.0.1"
TEXT = "on day 3 the é cow <eos> 語"
Runs = dict[str, TrainedRun]


@pytest.mark.parametrize("kind", ["cows", "letters"])
def test_ids_are_the_tokenizers_and_come_back_as_text(client: Client, runs: Runs, kind: str):
    tokenizer = runs[kind].tokenizer
    found = client.post("/tokenize", model=kind, prompt=TEXT, return_token_strs=True)
    assert found["tokens"] == tokenizer.encode(TEXT).tolist()
    assert found["count"] == len(found["tokens"]) == len(found["token_strs"])
    assert tokenizer.eos not in found["tokens"]
    assert client.post("/detokenize", model=kind, tokens=found["tokens"]) == {"prompt": TEXT}


def test_parts_of_characters_have_names_of_their_own(client: Client):
    found = client.post("/tokenize", model="letters", prompt="aé", return_token_strs=True)
    assert found["token_strs"] == ["a", "bytes:\\xc3", "bytes:\\xa9"]


def test_the_end_token_by_its_name_alone(client: Client, runs: Runs):
    eos = runs["cows"].tokenizer.eos
    assert client.post("/tokenize", model="cows", prompt="<eos>")["tokens"] == [eos]
    ids = client.post("/tokenize", model="cows", prompt="the cow")["tokens"]
    assert client.post("/tokenize", model="cows", prompt="the cow", add_special_tokens=True)["tokens"] == [eos, *ids]


def test_what_is_told_of_a_tokenizer(client: Client, runs: Runs):
    found = client.http.get("/tokenizer_info", params={"model": "transformer"}).json()
    tokenizer = runs["transformer"].tokenizer
    assert found["vocab_size"] == 257 and found["kind"] == "bytes" and found["model_max_length"] == 64
    assert found["eos_token"] == "<eos>" and found["eos_token_id"] == tokenizer.eos and found["bos_token"] is None
    assert client.http.get("/tokenizer_info", params={"model": "none"}).status_code == 404


def test_ids_that_are_none_are_refused(client: Client):
    error = client.refused("/detokenize", model="letters", tokens=[0, 257])
    assert error["message"] == "token ids of this model are from 0 to 256, got 257"
    for wrong in (-1, 2**40, 1.5, True, "1"):
        assert client.refused("/detokenize", model="letters", tokens=[wrong])["param"] == "tokens"
    assert client.refused("/tokenize", prompt=5)["param"] == "prompt"


def answers(http: TestClient) -> list[Any]:
    """What a client that names no model asks for, as lm-eval's remote tokenizer does."""
    return [
        http.get("/tokenizer_info"),
        http.post("/tokenize", json={"prompt": "the cow"}),
        http.post("/detokenize", json={"tokens": [1, 2]}),
    ]


def test_without_a_name_runs_of_different_tokenizers_are_not_told_apart(client: Client):
    for answer in answers(client.http):
        assert answer.status_code == 400
        error = error_of(answer)
        assert error["param"] == "model" and error["code"] == "model_required"
        assert error["message"] == (
            "the runs that are served here (cows, herd, strict, letters, lstm, transformer) have different tokenizers; "
            "name one of them as 'model', or serve it alone"
        )


def test_without_a_name_runs_of_one_tokenizer_are_answered_together(folders: dict[str, Path], runs: Runs):
    """A prompt of the length that is told fits into every one of them."""
    with TestClient(make_app(toy_service([folders["letters"], folders["transformer"]])), base_url=URL) as http:
        info, encoded, decoded = (each.json() for each in answers(http))
    tokenizer = runs["transformer"].tokenizer
    assert (info["kind"], info["eos_token_id"], info["model_max_length"]) == ("bytes", tokenizer.eos, 64)
    assert encoded["tokens"] == tokenizer.encode("the cow").tolist() and encoded["max_model_len"] == 64
    assert decoded["prompt"] == tokenizer.decode([1, 2])
