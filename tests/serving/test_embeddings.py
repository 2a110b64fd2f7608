"""/v1/embeddings by the official client: the vectors that Python gives."""

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
import openai
import pytest

from chainrule.api import TrainedRun
from tests.serving.conftest import PATIENCE, Client, Live

TEXTS = ["on day 3", "the old cow eats hay", "é", "on day 3"]
Runs = dict[str, TrainedRun]


@pytest.fixture
def ai(live: Live) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none needed", timeout=PATIENCE, max_retries=0) as client:
        yield client


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_vectors_are_those_that_python_gives(ai: openai.OpenAI, runs: Runs, kind: str):
    run = runs[kind]
    found = ai.embeddings.create(model=kind, input=TEXTS)  # by default, the client asks for base64
    assert [each.index for each in found.data] == [0, 1, 2, 3]
    np.testing.assert_allclose([each.embedding for each in found.data], run.embed(TEXTS), rtol=1e-4, atol=1e-5)
    assert found.usage.prompt_tokens == found.usage.total_tokens == sum(len(run.tokenizer.encode(t)) for t in TEXTS)
    plain = ai.embeddings.create(model=kind, input=TEXTS, encoding_format="float")
    assert [each.embedding for each in plain.data] == [each.embedding for each in found.data]
    last = ai.embeddings.create(model=kind, input=TEXTS[1], extra_body={"pooling": "last"})
    np.testing.assert_allclose(last.data[0].embedding, run.embed(TEXTS[1], pooling="last"), rtol=1e-4, atol=1e-5)


def test_base64_is_of_little_endian_floats(client: Client, runs: Runs):
    [one] = client.post("/v1/embeddings", model="lstm", input="on day 3", encoding_format="base64")["data"]
    expected = runs["lstm"].embed("on day 3").astype("<f4").tobytes()
    np.testing.assert_allclose(
        np.frombuffer(base64.b64decode(one["embedding"]), "<f4"), np.frombuffer(expected, "<f4"), rtol=1e-4, atol=1e-5
    )


def test_ids_are_read_as_they_are(client: Client, runs: Runs):
    tokenizer = runs["lstm"].tokenizer
    ids = [tokenizer.encode(text).tolist() for text in TEXTS[:2]]

    def vectors(given: Any) -> list[list[float]]:
        return [each["embedding"] for each in client.post("/v1/embeddings", model="lstm", input=given)["data"]]

    by_text = vectors(TEXTS[:2])
    np.testing.assert_allclose(vectors([[tokenizer.eos, *each] for each in ids]), by_text, rtol=1e-4, atol=1e-5)
    bare = vectors(ids[0])
    np.testing.assert_allclose(bare, vectors([ids[0]]), rtol=1e-4, atol=1e-5)
    assert not np.allclose(bare, by_text[:1], atol=1e-3)  # without an <eos> before it, a text reads otherwise


def test_without_a_name_the_first_model_that_can_answers(client: Client):
    assert client.post("/v1/embeddings", input="on day 3")["model"] == "lstm"


def test_a_model_that_counts_has_no_vectors(ai: openai.OpenAI):
    with pytest.raises(openai.BadRequestError) as refused:
        ai.embeddings.create(model="cows", input="on day 3")
    assert refused.value.body["message"] == (  # type: ignore[index]
        "'cows' is of kind ngram, which has no hidden state to make vectors of; "
        "use a model that learns by gradient, such as an LSTM"
    )
    assert (refused.value.param, refused.value.code) == ("model", "no_embeddings")


def test_vectors_have_the_models_own_width(client: Client, runs: Runs):
    width = runs["lstm"].embed("on").shape[0]
    assert (
        len(client.post("/v1/embeddings", model="lstm", input="on", dimensions=width)["data"][0]["embedding"]) == width
    )
    error = client.refused("/v1/embeddings", model="lstm", input="on", dimensions=8)
    assert (error["param"], error["code"]) == ("dimensions", "unsupported")
    assert error["message"] == f"dimensions is not supported: vectors of 'lstm' have {width} numbers; leave it out"


@pytest.mark.parametrize("given", ["x" * 65, ["x", "x" * 65], [1] * 65, [[1], [1] * 65]])
def test_a_text_that_is_too_long_has_openais_code(client: Client, given: Any):
    error = client.refused("/v1/embeddings", model="transformer", input=given)
    assert (error["param"], error["code"]) == ("input", "context_length_exceeded")
    assert error["type"] == "invalid_request_error"
    assert "has 65 tokens but this model reads 64; shorten it" in error["message"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": [[]]}, "input"),
        ({"input": "on", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "on", "pooling": "max"}, "pooling"),
        ({"input": [10**6]}, "input"),
    ],
)
def test_what_is_wrong_is_named(client: Client, body: dict[str, Any], param: str):
    assert client.refused("/v1/embeddings", model="lstm", **body)["param"] == param
