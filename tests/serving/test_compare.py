"""/compare against `evaluate`: the bits of a text by every model, whatever it is cut into."""

from math import log

import numpy as np
import pytest
from fastapi.testclient import TestClient

import chainrule
from chainrule.data.documents import Documents
from chainrule.evaluation.score import score_documents
from chainrule.serving.app import make_app
from chainrule.serving.surprisal import Surprisal, common_bounds, disagreements
from tests.serving.toys import toy_service
from tests.text.samples import train

KINDS = ["ngram", "lstm", "transformer"]
TEXT = "On day 7 the old cow eats grass – naïvely, by the 河.\nShe sings."


def compare(toy_client: TestClient, text: str, **more: object) -> dict:
    answer = toy_client.post("/compare", json={"text": text} | more)
    assert answer.status_code == 200, answer.text
    return answer.json()


def document(text: str) -> Documents:
    data = np.frombuffer(bytearray(text.encode()), np.uint8)
    return Documents(data, np.array([0]), np.array([len(data)]), np.array([1]), "text", 0)


def test_totals_and_tokens_are_those_of_evaluate(toy_client, toys):
    found = compare(toy_client, TEXT)
    assert [each["model"] for each in found["models"]] == KINDS
    for each, path in zip(found["models"], toys, strict=True):
        run = chainrule.load(path)
        scores, stream, logs = score_documents(run.model, run.tokenizer, document(TEXT))
        assert each["bits"] == pytest.approx(scores.nats.sum() / log(2), rel=1e-6)
        assert each["bits_per_byte"] == pytest.approx(scores.nats.sum() / log(2) / len(TEXT.encode()), rel=1e-6)
        assert [token["bits"] for token in each["tokens"]] == pytest.approx((-logs[:-1] / log(2)).tolist(), rel=1e-6)
        assert each["end_bits"] == pytest.approx(-logs[-1] / log(2), rel=1e-6)
        assert len(stream) == len(each["tokens"]) + 2


def test_pieces_and_spans_are_the_text_and_spans_sum_up_each_models_tokens(toy_client):
    found = compare(toy_client, TEXT)
    assert "".join(span["text"] for span in found["spans"]) == TEXT
    assert len(found["spans"]) > 10
    for number, each in enumerate(found["models"]):
        tokens = each["tokens"]
        assert "".join(token["text"] for token in tokens) == TEXT
        assert all(token["text"] == TEXT[token["begin"] : token["end"]] for token in tokens)
        for span in found["spans"]:
            inside = [token["bits"] for token in tokens if span["begin"] <= token["begin"] < span["end"]]
            first = span["begin"] == 0  # what a character's later bytes cost belongs to it, not to the next span
            later = [t["bits"] for t in tokens if t["begin"] == t["end"] == span["begin"] and not first]
            later_here = [t["bits"] for t in tokens if t["begin"] == t["end"] == span["end"]]
            assert span["bits"][number] == pytest.approx(sum(inside) - sum(later) + sum(later_here), abs=1e-6)


def test_spans_end_where_all_models_have_a_boundary(toy_client):
    found = compare(toy_client, TEXT)
    ends = [{token["end"] for token in each["tokens"]} for each in found["models"]]
    assert {span["end"] for span in found["spans"]} == set.intersection(*ends)


def test_disagreements_are_the_spans_where_models_are_farthest_apart(toy_client):
    found = compare(toy_client, TEXT)
    apart = [max(span["bits"]) - min(span["bits"]) for span in found["spans"]]
    expected = sorted(range(len(apart)), key=lambda i: -apart[i])[:10]
    assert [apart[i] for i in found["disagreements"]] == pytest.approx([apart[i] for i in expected])
    assert compare(toy_client, TEXT, models=["lstm"])["disagreements"] == []


def test_no_bits_of_spelled_words_are_lost_where_the_added_space_is_not_in_the_text():
    tokenizer = train("words", ["cows eat hay", "cows eat corn"])
    text = "zebu eat\nxyz"
    ids = tokenizer.encode(text)
    surprise = Surprisal(tokenizer.ends(ids), np.arange(1.0, len(ids) + 1), 0.0, True)
    assert surprise.ends.tolist() == [0, 1, 2, 3, 4, 8, 9, 9, 10, 11, 12]  # the first and the eighth are such spaces
    assert surprise.between(np.array([0, 4, 8, 9, 12])).tolist() == [15.0, 6.0, 15.0, 30.0]


def test_bits_between_bounds_by_hand():
    surprise = Surprisal(np.array([2, 3, 6, 8]), np.array([1.0, np.inf, 0.5, 4.0]), 1.0, True)
    assert surprise.between(np.array([0, 2, 6, 8])).tolist() == [1.0, np.inf, 4.0]
    assert surprise.total == np.inf
    other = Surprisal(np.array([1, 3, 8]), np.ones(3), 1.0, True)
    assert common_bounds([surprise, other], "a–bcd😀"[:6].encode()[:8]).tolist() == [0, 8]  # 3 would cut the dash
    assert common_bounds([surprise, other], b"abcdefgh").tolist() == [0, 3, 8]


def test_what_is_impossible_for_one_model_is_the_largest_disagreement():
    bits = np.array([[1.0, np.inf, 30.0], [1.0, 2.0, 1.0]])
    assert disagreements(bits) == [1, 2]


def test_an_impossible_token_is_null(tmp_path):
    text = tmp_path / "cows.txt"
    text.write_text("the cow eats hay\nthe cow eats grass\n" * 20)
    run = chainrule.train(
        text, model="ngram", order=2, smoothing="maximum-likelihood", tokenizer="words", path=tmp_path / "mle"
    )
    with TestClient(make_app(toy_service([run.path])), base_url="http://localhost") as toy_client:
        found = compare(toy_client, "hay hay")["models"][0]
    assert found["bits"] is None
    assert found["bits_per_byte"] is None
    assert None in [token["bits"] for token in found["tokens"]]


def test_a_closed_vocabulary_has_bits_but_no_bits_per_byte(tmp_path):
    text = tmp_path / "cows.txt"
    text.write_text("the cow eats hay\nthe cow eats grass\n" * 20)
    run = chainrule.train(
        text, model="ngram", order=2, tokenizer="words", closed_vocabulary=True, path=tmp_path / "closed"
    )
    with TestClient(make_app(toy_service([run.path])), base_url="http://localhost") as toy_client:
        found = compare(toy_client, "the  zebra eats\n")["models"][0]
    assert [token["text"] for token in found["tokens"]] == ["the", "  zebra", " eats\n"]
    assert found["bits_per_byte"] is None
    stream = np.array([run.tokenizer.eos, *run.tokenizer.encode("the zebra eats"), run.tokenizer.eos])
    assert found["bits"] == pytest.approx(-run.model.score(stream).sum() / log(2), rel=1e-6)


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({"text": ""}, 400, "'text' is wrong"),
        ({"text": "x" * 20_001}, 400, "at most 20000 characters"),
        ({"text": "x", "models": ["lstmm"]}, 404, "did you mean 'lstm'?"),
        ({"text": "x", "models": []}, 400, "'models' is wrong"),
        ({}, 400, "'text' is wrong"),
    ],
)
def test_what_is_wrong_gets_a_sentence(toy_client, body, status, sentence):
    answer = toy_client.post("/compare", json=body)
    assert answer.status_code == status
    assert sentence in answer.json()["error"]["message"]
