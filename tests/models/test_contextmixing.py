"""Context mixing: what it predicts, how it learns while it scores, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest

from chainrule.data.corpus import Corpus
from chainrule.errors import UserError
from chainrule.models import contextmixing, ngram
from chainrule.models._bits import score_bits
from chainrule.models.contextmixing import Config, Model
from chainrule.storage import load_arrays, save_arrays

EOS = 256


def stream_of(*documents: bytes) -> np.ndarray:
    """eos d1 eos d2 ... eos"""
    parts = [np.append(np.frombuffer(each, np.uint8), EOS) for each in documents]
    return np.concatenate([[EOS], *parts]).astype(np.int64)


@pytest.fixture(scope="module")
def texts() -> tuple[np.ndarray, np.ndarray]:
    """Of Python's documentation, 120 kB to learn from and 12 kB to predict."""
    found = b"".join(documents.buffer.tobytes() for documents in Corpus(["builtin:python-docs"]).batches())
    blocks = found[:132_000].split(b"\n\n")
    held_out = blocks[5::11]
    return stream_of(*(each for i, each in enumerate(blocks) if i % 11 != 5)), stream_of(*held_out)


@pytest.fixture(scope="module")
def model(texts: tuple[np.ndarray, np.ndarray]) -> Model:
    return Model(Config(passes=2), 257, EOS).fit([texts[0]])


def bits(scores: np.ndarray) -> float:
    return float(-scores.astype(np.float64).mean() / np.log(2))


def test_contexts_that_vote_predict_better_than_back_off(model: Model, texts: tuple[np.ndarray, np.ndarray]):
    learned, held_out = texts
    orders = [ngram.Model(ngram.Config(order=order), 257, EOS).fit([learned]).score(held_out) for order in (4, 5, 6)]
    assert bits(model.score(held_out)) < 0.95 * min(map(bits, orders))


def test_a_model_that_learns_while_it_scores_predicts_what_comes_again(model: Model):
    again = b"A sentence about zebras, quaggas and okapis that no documentation has. "
    still, learning = (Model.__new__(Model) for _ in range(2))
    for each, config in ((still, Config()), (learning, Config(dynamic=True))):
        each.__dict__.update(model.__dict__ | {"config": config})
    halves = [np.array_split(each.score(stream_of(again * 2)), 2) for each in (still, learning)]
    assert bits(halves[1][1]) < 0.2 * bits(halves[0][1]), "the second time is known by heart"
    np.testing.assert_array_equal(learning.score(stream_of(again)), learning.score(stream_of(again)))


def test_scoring_changes_nothing(model: Model, texts: tuple[np.ndarray, np.ndarray]):
    before = model.score(texts[1][:500])
    learning = Model.__new__(Model)
    learning.__dict__.update(model.__dict__ | {"config": Config(dynamic=True)})
    learning.score(texts[1])
    np.testing.assert_array_equal(model.score(texts[1][:500]), before)


def test_a_byte_255_and_the_end_of_a_document_are_told_apart(model: Model):
    odd = np.array([EOS, 97, 255, 98, EOS])
    found = model.step(odd[None, :-1], model.start(1))[0][0]
    np.testing.assert_allclose(model.score(odd), found[np.arange(4), odd[1:]], rtol=1e-3)  # of 1e-6, in 32 bits
    np.testing.assert_allclose(score_bits(model.bit_probabilities(odd), odd, EOS), model.score(odd), rtol=1e-6)


def test_reading_more_is_as_if_it_had_been_there(model: Model, tmp_path: Path):
    more = stream_of(b"zebras graze", b"quaggas graze")
    grown = Model(Config(passes=1), 257, EOS).fit([stream_of(b"okapis graze", b"cows graze")])
    grown.read_more(more)
    grown.save(tmp_path / "model.safetensors")
    loaded = Model.load(tmp_path / "model.safetensors")  # counts its text again
    np.testing.assert_array_equal(loaded.tables.slots, grown.tables.slots)
    np.testing.assert_array_equal(loaded.score(more), grown.score(more))


def test_what_is_learned_for_good_was_predicted_as_what_is_forgotten_again(texts: tuple[np.ndarray, np.ndarray]):
    model = Model(Config(passes=1, dynamic=True), 257, EOS).fit([texts[0][:20_000]])
    forgotten = model.bit_probabilities(texts[1])
    np.testing.assert_array_equal(model.read_more(texts[1]), forgotten)


def test_spoiled_counts_change_neither_figures_nor_file(texts: tuple[np.ndarray, np.ndarray], tmp_path: Path):
    model = Model(Config(passes=1, dynamic=True), 257, EOS).fit([texts[0][:20_000]])
    expected = model.bit_probabilities(texts[1])
    model.save(tmp_path / "before")
    np.testing.assert_array_equal(model.bit_probabilities(texts[1], spoils_counts=True), expected)
    model.save(tmp_path / "after")
    assert (tmp_path / "after").read_bytes() == (tmp_path / "before").read_bytes()
    np.testing.assert_array_equal(Model.load(tmp_path / "after").bit_probabilities(texts[1]), expected)


def test_the_most_bytes_are_kept(texts: tuple[np.ndarray, np.ndarray]):
    small = Model(Config(passes=1, most_bytes=5_000), 257, EOS).fit([texts[0]])
    assert len(small.text) - contextmixing.REACH <= 5_001


def test_what_is_only_counted_is_counted_as_if_it_had_been_predicted(texts: tuple[np.ndarray, np.ndarray]):
    learned, held_out = texts
    whole, part, hurried = (Model(Config(passes=1), 257, EOS) for _ in range(3))
    part.config = Config(passes=1, predicted_bytes=contextmixing.AT_ONCE)
    whole.fit([learned])
    for each in (part.fit([learned]), hurried.fit([learned], seconds=0.0)):
        np.testing.assert_array_equal(each.text, whole.text)
        np.testing.assert_array_equal(each.tables.slots, whole.tables.slots)
        np.testing.assert_array_equal(each.tables.latest, whole.tables.latest)
        assert each.predicted == contextmixing.AT_ONCE < whole.predicted == len(learned) - 1
    alone = Model(Config(passes=1, most_bytes=contextmixing.AT_ONCE), 257, EOS).fit([learned])
    of_whole, of_part, of_alone = (bits(each.score(held_out)) for each in (whole, part, alone))
    assert of_whole < of_part < 0.9 * of_alone, (of_whole, of_part, of_alone)


def test_a_text_is_read_again_only_where_there_is_time(texts: tuple[np.ndarray, np.ndarray]):
    hurried = Model(Config(), 257, EOS).fit([texts[0]], seconds=0.0)
    leisurely = Model(Config(), 257, EOS).fit([texts[0]], seconds=1000.0)
    assert hurried.predicted < len(texts[0])
    assert leisurely.predicted == contextmixing.MOST_PASSES * (len(texts[0]) - 1)


def test_a_vocabulary_of_words_is_refused():
    with pytest.raises(UserError, match="predicts the bits of bytes, got a vocabulary of 5,000 tokens"):
        Model(Config(), 5000, 4999)


@pytest.mark.parametrize("name", ["text", "chances", "weights", "curves", "changed_curves"])
def test_a_damaged_file_is_refused(model: Model, tmp_path: Path, name: str):
    path = tmp_path / "model.safetensors"
    model.save(path)
    arrays, metadata = load_arrays(path)
    arrays = {each: np.array(arrays[each]) for each in arrays}
    arrays[name] = arrays[name][:-1] if name != "text" else arrays[name][5:]
    save_arrays(path, arrays, metadata)
    with pytest.raises(UserError, match="does not hold a model of mixed contexts"):
        Model.load(path)
