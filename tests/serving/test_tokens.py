"""Text to ids and back."""

import pytest

from chainrule.api import TrainedRun
from tests.serving.conftest import Client

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
    assert client.post("/tokenize", prompt="<eos>")["tokens"] == [eos]
    ids = client.post("/tokenize", prompt="the cow")["tokens"]
    assert client.post("/tokenize", prompt="the cow", add_special_tokens=True)["tokens"] == [eos, *ids]


def test_what_is_told_of_a_tokenizer(client: Client, runs: Runs):
    found = client.http.get("/tokenizer_info", params={"model": "transformer"}).json()
    tokenizer = runs["transformer"].tokenizer
    assert found["vocab_size"] == 257 and found["kind"] == "bytes" and found["model_max_length"] == 64
    assert found["eos_token"] == "<eos>" and found["eos_token_id"] == tokenizer.eos and found["bos_token"] is None
    assert client.http.get("/tokenizer_info").json()["kind"] == "words"
    assert client.http.get("/tokenizer_info", params={"model": "none"}).status_code == 404


def test_ids_that_are_none_are_refused(client: Client):
    error = client.refused("/detokenize", model="letters", tokens=[0, 257])
    assert error["message"] == "token ids of this model are from 0 to 256, got 257"
    for wrong in (-1, 2**40, 1.5, True, "1"):
        assert client.refused("/detokenize", tokens=[wrong])["param"] == "tokens"
    assert client.refused("/tokenize", prompt=5)["param"] == "prompt"
