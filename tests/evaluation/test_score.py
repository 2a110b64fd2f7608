"""Scores: the same as asking the model token by token, and figures that can be worked out by hand."""

from collections.abc import Iterator
from itertools import pairwise
from math import inf, log
from pathlib import Path

import numpy as np
import pytest

from chainrule.data.documents import Documents, cut
from chainrule.data.shards import ShardWriter, TokenShards, write_index
from chainrule.evaluation.score import score, score_documents, score_stream
from chainrule.evaluation.stream import evaluate_shards
from chainrule.models import ngram
from chainrule.models.contract import LanguageModel
from chainrule.text.base import Tokenizer
from tests.evaluation.toys import LINES, BigramModel, as_lines, random_model, tokenizer_of

NAMES = ["bytes", "characters", "words", "closed words"]
COLUMNS = ("tokens", "unknown", "nats", "eos_nats", "unknown_nats", "impossible", "text_bytes", "characters")
UNSEEN = (*LINES, "the zebra sat", "qqq zzz", "☃ on the mat")


def fitted(tokenizer: Tokenizer) -> ngram.Model:
    stream = np.append(tokenizer.eos, tokenizer.encode_documents(as_lines(LINES))).astype(np.uint32)
    return ngram.Model(ngram.Config(order=3), tokenizer.vocabulary_size, tokenizer.eos).fit([stream])


def naive_log_probabilities(model: LanguageModel, ids: list[int]) -> Iterator[float]:
    """log p of each token, asking one at a time, with a softmax of our own."""
    state, before = model.start(1), model.eos
    for id in ids:
        logits, state = model.step(np.array([[before]]), state)
        row = np.asarray(logits, np.float64)[0, -1]
        yield row[id] - row.max() - log(np.exp(row - row.max()).sum())
        before = id


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("architecture", ["table", "ngram"])
def test_scores_are_those_of_asking_token_by_token(name: str, architecture: str) -> None:
    tokenizer = tokenizer_of(name)
    model = random_model(tokenizer) if architecture == "table" else fitted(tokenizer)
    found = score(model, tokenizer, [as_lines(UNSEEN)])
    for document, line in enumerate(UNSEEN):
        ids = tokenizer.encode(line).tolist()
        nats = [-each for each in naive_log_probabilities(model, [*ids, tokenizer.eos])]
        unknown = [cost for cost, id in zip(nats, ids, strict=False) if id == tokenizer.unknown]
        assert found.tokens[document] == len(ids)
        assert found.nats[document] == pytest.approx(sum(nats), rel=1e-5)
        assert found.eos_nats[document] == pytest.approx(nats[-1], rel=1e-5)
        assert found.unknown[document] == len(unknown)
        assert found.unknown_nats[document] == pytest.approx(sum(unknown), rel=1e-5)
        assert found.text_bytes[document] == len(line.encode()) + 1
        assert found.characters[document] == len(line) + 1
        assert found.lines[document] == document + 1
    assert not found.impossible.any()
    assert found.unknown.any() == (name == "closed words")


@pytest.mark.parametrize("name", NAMES)
def test_batches_and_files_give_the_scores_of_one_batch(name: str) -> None:
    tokenizer = tokenizer_of(name)
    model = random_model(tokenizer)
    at_once = score(model, tokenizer, [as_lines(UNSEEN)])
    batches = [as_lines(UNSEEN[:4], "one"), as_lines(UNSEEN[4:5], "two"), as_lines(UNSEEN[5:], "one")]
    found = score(model, tokenizer, [batches[0], batches[1].select(np.zeros(1, bool)), *batches[1:]])
    for column in COLUMNS:
        assert getattr(found, column).tolist() == getattr(at_once, column).tolist()
    assert [found.paths[file] for file in found.files] == ["one"] * 4 + ["two"] + ["one"] * 4
    assert found.lines.tolist() == [1, 2, 3, 4, 1, 1, 2, 3, 4]
    assert found.summary() == at_once.summary()


def test_the_order_of_documents_does_not_matter_to_each_of_them() -> None:
    tokenizer = tokenizer_of("words")
    model = random_model(tokenizer)
    forth, back = score(model, tokenizer, [as_lines(UNSEEN)]), score(model, tokenizer, [as_lines(UNSEEN[::-1])])
    assert forth.nats.tolist() == back.nats[::-1].tolist()


def test_the_stream_and_its_log_probabilities_add_up_to_the_scores() -> None:
    tokenizer = tokenizer_of("words")
    scores, stream, found = score_documents(random_model(tokenizer), tokenizer, as_lines(LINES))
    assert stream[0] == stream[-1] == tokenizer.eos
    assert len(found) == len(stream) - 1 == scores.tokens.sum() + len(LINES)
    assert -found.sum() == pytest.approx(scores.nats.sum())


# Worked out by hand


def hand_made() -> tuple[Tokenizer, BigramModel]:
    """p(a|start) = 1/2, p(b|a) = 1/4, p(end|b) = 1/2, p(<unk>|a) = 1/8, p(end|<unk>) = 1/4; p(b|b) = 0."""
    tokenizer = tokenizer_of("closed words", ["a a b"])
    unknown, a, b, end = range(4)
    assert [tokenizer.token_text(id) for id in range(4)] == ["<unk>", "a", "b", "<eos>"]
    probability = np.zeros((4, 4))
    probability[end] = [1 / 4, 1 / 2, 1 / 4, 0]
    probability[a] = [1 / 8, 1 / 8, 1 / 4, 1 / 2]
    probability[b] = [1 / 4, 1 / 4, 0, 1 / 2]
    probability[unknown] = [1 / 4, 1 / 4, 1 / 4, 1 / 4]
    assert (probability.sum(1) == 1).all()
    with np.errstate(divide="ignore"):
        return tokenizer, BigramModel(np.log(probability), tokenizer.eos)


def test_figures_of_one_document_by_hand() -> None:
    tokenizer, model = hand_made()
    figures = score(model, tokenizer, [as_lines(["a b"])]).summary()
    # 1/2 * 1/4 * 1/2 = 1/16: four bits over "a b\n", over two words and an end.
    assert figures["nats"] == pytest.approx(log(16))
    assert figures["bits_per_byte"] == pytest.approx(4 / 4)
    assert figures["bits_per_character"] == pytest.approx(4 / 4)
    assert figures["perplexity"] == pytest.approx(16 ** (1 / 3))
    assert figures["perplexity_without_eos"] == pytest.approx(8 ** (1 / 2))
    assert figures["perplexity_without_unknown"] == pytest.approx(16 ** (1 / 3))
    counts = ("documents", "tokens", "bytes", "characters", "unknown_tokens", "impossible_tokens")
    assert [figures[name] for name in counts] == [1, 2, 4, 4, 0, 0]


def test_figures_of_two_documents_and_an_unknown_word_by_hand() -> None:
    tokenizer, model = hand_made()
    scores = score(model, tokenizer, [as_lines(["a b", "a é"])])
    # a <unk> end: 1/2 * 1/8 * 1/4 = 1/64; <unk> itself is 1/8.
    assert scores.nats == pytest.approx([log(16), log(64)])
    assert scores.eos_nats == pytest.approx([log(2), log(4)])
    assert scores.unknown_nats == pytest.approx([0, log(8)])
    figures = scores.summary()
    assert figures["perplexity"] == pytest.approx(1024 ** (1 / 6))
    assert figures["perplexity_without_eos"] == pytest.approx((1024 / 8) ** (1 / 4))
    assert figures["perplexity_without_unknown"] == pytest.approx((1024 / 8) ** (1 / 5))
    assert (figures["unknown_tokens"], figures["bytes"], figures["characters"]) == (1, 9, 8)
    assert figures["bits_per_byte"] == pytest.approx(10 / 9)
    assert figures["bits_per_character"] == pytest.approx(10 / 8)


def test_impossible_tokens_are_counted_and_make_the_figures_infinite() -> None:
    tokenizer, model = hand_made()
    scores = score(model, tokenizer, [as_lines(["a b", "a b b b", "a"])])
    assert scores.impossible.tolist() == [0, 2, 0]
    assert np.isinf(scores.nats).tolist() == [False, True, False]
    figures = scores.summary()
    assert figures["impossible_tokens"] == 2
    for name in ("nats", "perplexity", "perplexity_without_eos", "perplexity_without_unknown", "bits_per_byte"):
        assert figures[name] == inf


def test_an_impossible_end_is_counted_too() -> None:
    tokenizer, model = hand_made()
    model.table[1, 3] = -inf
    scores = score(model, tokenizer, [as_lines(["a"])])
    assert (scores.impossible.tolist(), scores.eos_nats.tolist()) == ([1], [inf])
    assert scores.summary()["perplexity_without_eos"] == inf


@pytest.mark.parametrize(("unit", "separator"), [("line", 1), ("block", 2), ("file", 0)])
def test_bits_per_byte_are_over_the_bytes_of_the_text_with_its_separators(unit: str, separator: int) -> None:
    text = {"line": "ab\ncdé\n", "block": "ab\n\ncdé\n\n", "file": "ab\ncdé\n"}[unit]
    documents: Documents = cut(np.frombuffer(text.encode(), np.uint8), unit, "t")
    tokenizer = tokenizer_of("bytes")
    figures = score(random_model(tokenizer), tokenizer, [documents]).summary()
    assert figures["bytes"] == len(text.encode())
    assert figures["characters"] == len(text)
    assert figures["bits_per_byte"] == pytest.approx(figures["nats"] / log(2) / len(text.encode()))
    assert documents.separator_bytes == separator


def test_a_uniform_model_of_bytes_costs_what_counting_says() -> None:
    """257 equal choices: log2(257) bits for every byte, one more for every end."""
    tokenizer = tokenizer_of("bytes")
    model = BigramModel(np.zeros((257, 257)), tokenizer.eos)
    figures = score(model, tokenizer, [as_lines(LINES)]).summary()
    assert figures["perplexity"] == pytest.approx(257, rel=1e-5)
    assert figures["bits_per_byte"] == pytest.approx(np.log2(257), rel=1e-6)


# Shards


def write_shards(folder: Path, tokenizer: Tokenizer, batches: list[Documents], tokens_per_shard: int) -> TokenShards:
    with ShardWriter(folder, "train", tokenizer.vocabulary_size, tokenizer.eos, tokens_per_shard) as writer:
        for documents in batches:
            writer.append(documents, tokenizer.encode_documents(documents))
        part = writer.close()
    write_index(folder, {"train": part}, {"train": writer.paths}, writer.dtype, tokenizer.fingerprint)
    return TokenShards(folder)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tokens_per_shard", [1, 1 << 20])
def test_shards_have_the_figures_of_their_documents(tmp_path: Path, name: str, tokens_per_shard: int) -> None:
    tokenizer = tokenizer_of(name)
    model = random_model(tokenizer)
    batches = [as_lines([line]) for line in UNSEEN]
    shards = write_shards(tmp_path, tokenizer, batches, tokens_per_shard)
    assert len(shards) == (len(UNSEEN) if tokens_per_shard == 1 else 1)
    found = evaluate_shards(model, tokenizer, shards)
    expected = score(model, tokenizer, batches).summary()
    assert found is not None
    assert found["loss"] == pytest.approx(expected["nats"] / (expected["tokens"] + len(UNSEEN)), rel=1e-6)
    assert found["perplexity"] == pytest.approx(expected["perplexity"], rel=1e-6)
    assert found["bits_per_byte"] == (
        None if tokenizer.is_closed else pytest.approx(expected["bits_per_byte"], rel=1e-6)
    )
    assert found["tokens"] == expected["tokens"] + len(UNSEEN)
    assert (found["documents"], found["bytes"]) == (len(UNSEEN), expected["bytes"])
    assert found["impossible_tokens"] == 0


def test_shards_with_impossible_tokens_have_no_figures_but_a_count(tmp_path: Path) -> None:
    tokenizer, model = hand_made()
    found = evaluate_shards(model, tokenizer, write_shards(tmp_path, tokenizer, [as_lines(["a b b b", "a"])], 100))
    assert found is not None
    assert [found[name] for name in ("loss", "perplexity", "bits_per_byte")] == [None] * 3
    assert found["impossible_tokens"] == 2


def test_an_empty_part_has_no_figures(tmp_path: Path) -> None:
    tokenizer, model = hand_made()
    assert evaluate_shards(model, tokenizer, write_shards(tmp_path, tokenizer, [], 100)) is None


@pytest.mark.parametrize("start", [3, None])
def test_texts_that_begin_with_a_token_of_their_own(start: int | None) -> None:
    """Fed start d1 eos start d2 eos one token at a time; what stands for the start is never asked for."""
    tokenizer = tokenizer_of("words")
    tokenizer.start = start
    model = BigramModel(np.random.default_rng(1).normal(size=(tokenizer.vocabulary_size,) * 2), tokenizer.eos)
    documents = [tokenizer.encode(line).tolist() for line in ("the cat sat", "on", "the mat")]
    expected = []
    for document in documents:
        before = tokenizer.eos if start is None else start
        for id in (*document, tokenizer.eos):
            row = model.table[before]
            expected.append(row[id] - np.log(np.exp(row).sum()))
            before = id
    stream = np.array([tokenizer.eos, *(id for each in documents for id in (*each, tokenizer.eos))], np.uint32)
    np.testing.assert_allclose(score_stream(model, tokenizer, stream), expected, rtol=1e-5)


def test_a_start_of_their_own_is_read_in_its_place_by_models_that_remember() -> None:
    tokenizer = tokenizer_of("words")
    tokenizer.start = 3
    model = random_model(tokenizer)
    documents = [tokenizer.encode(line).tolist() for line in ("the cat", "mat mat mat", "a")]
    fed = [id for each in documents for id in (3, *each, tokenizer.eos)]
    state, expected = model.start(1), []
    for before, id in pairwise(fed):
        logits, state = model.step(np.array([[before]]), state)
        row = logits[0, -1]
        expected.append(row[id] - np.log(np.exp(row).sum()))
    asked = [index for index, id in enumerate(fed[1:]) if fed[index] != tokenizer.eos]
    stream = np.array([tokenizer.eos, *(id for each in documents for id in (*each, tokenizer.eos))], np.uint32)
    np.testing.assert_allclose(score_stream(model, tokenizer, stream), np.array(expected)[asked], rtol=1e-5)
