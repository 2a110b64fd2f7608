"""The cache against the sum that defines it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule.errors import UserError
from chainrule.models.cache import Config, Model
from chainrule.models.contract import LanguageModel
from chainrule.storage import save_arrays

VOCABULARY, EOS = 7, 6
BACKGROUND = np.array([0.3, 0.0, 0.1, 0.2, 0.0, 0.3, 0.1])


def make(decay: float, background: np.ndarray | None = BACKGROUND) -> Model:
    return Model(Config(decay), VOCABULARY, EOS, background)


def stream(length: int, seed: int = 0) -> np.ndarray:
    ids = np.random.default_rng(seed).choice(VOCABULARY, length, p=[0.4, 0.2, 0.1, 0.1, 0.05, 0.0, 0.15])
    ids[[0, -1]] = EOS
    return ids.astype(np.uint32)


def by_definition(read: np.ndarray, decay: float, background: np.ndarray = BACKGROUND) -> np.ndarray:
    """(1 - decay) Σ_j decay^(t - j) [w_j = w] + decay^t background(w), added up one by one."""
    shares = decay ** len(read) * background
    for j, word in enumerate(read, 1):
        shares[word] += (1 - decay) * decay ** (len(read) - j)
    return shares


@pytest.mark.parametrize("decay", [0.3, 0.9, 0.999])
def test_scores_are_those_of_the_definition(decay: float) -> None:
    ids = stream(300)
    found = np.exp(make(decay).score(ids).astype(np.float64))
    expected = [by_definition(ids[:i], decay)[ids[i]] for i in range(1, len(ids))]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert (found == 0).any()  # words that neither the text nor the background has had


@pytest.mark.parametrize("decay", [0.3, 0.9, 0.999])
def test_steps_give_the_whole_distribution_of_the_definition(decay: float) -> None:
    ids = np.stack([stream(40, 1), stream(40, 2)])
    logits, _ = make(decay).step(ids, make(decay).start(2))
    for row in range(2):
        expected = np.array([by_definition(ids[row, : i + 1], decay) for i in range(40)])
        np.testing.assert_allclose(np.exp(logits[row]), expected, rtol=1e-5)
        np.testing.assert_allclose(expected.sum(-1), 1)


def test_what_was_read_long_ago_is_all_but_forgotten_and_what_was_just_read_is_likely() -> None:
    logits, _ = make(0.9, None).step(np.array([[0] * 50 + [1]]), make(0.9, None).start(1))
    shares = np.exp(logits[0, -1])
    assert shares[1] == pytest.approx(0.1 + 0.9**51 / 7, rel=1e-4)
    assert shares[0] == pytest.approx(0.9 - 0.9**51 * 6 / 7, rel=1e-4)


def test_before_anything_is_read_the_cache_is_its_background() -> None:
    np.testing.assert_array_equal(make(0.9).start(2), [BACKGROUND] * 2)
    np.testing.assert_allclose(make(0.9, None).start(1), [[1 / 7] * 7])


def test_steps_may_be_cut_anywhere_and_leave_the_state_they_were_given() -> None:
    model, ids = make(0.9), stream(30)[None]
    whole, _ = model.step(ids, model.start(1))
    _, state = model.step(ids[:, :11], model.start(1))
    kept = state.copy()
    rest, _ = model.step(ids[:, 11:], state)
    np.testing.assert_allclose(rest, whole[:, 11:], rtol=1e-5)
    np.testing.assert_array_equal(state, kept)
    np.testing.assert_array_equal(model.background, BACKGROUND)


def test_scores_of_a_stream_equal_the_default_by_steps() -> None:
    model, ids = make(0.95), stream(500)
    np.testing.assert_allclose(model.score(ids), LanguageModel.score(model, ids), rtol=1e-4, atol=1e-5)


def test_a_long_stream_neither_overflows_nor_drifts() -> None:
    """After 200,000 words the last few still decide, as the definition over them alone says."""
    ids = stream(200_000)
    found = np.exp(make(0.9).score(ids)[-1000:].astype(np.float64))
    expected = [by_definition(ids[i - 400 : i], 0.9)[ids[i]] for i in range(len(ids) - 1000, len(ids))]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-12)


def test_saved_equals_loaded(tmp_path: Path) -> None:
    make(0.97).save(tmp_path / "model.safetensors")
    loaded = Model.load(tmp_path / "model.safetensors")
    assert loaded.config == Config(0.97)
    np.testing.assert_array_equal(loaded.score(stream(50)), make(0.97).score(stream(50)))


@pytest.mark.parametrize(
    ("facts", "background"),
    [
        ({"eos": 7}, BACKGROUND),
        ({"config": {"decay": 1.5}}, BACKGROUND),
        ({"config": {}, "vocabulary_size": "7"}, BACKGROUND),
        ({"eos": None}, BACKGROUND),
        ({}, BACKGROUND * 2),
        ({}, BACKGROUND[:-1]),
        ({}, BACKGROUND.astype(np.float32)),
        ({}, np.array([1.5, -0.5, 0, 0, 0, 0, 0])),
        ({}, np.full(7, np.nan)),
    ],
)
def test_a_file_that_lies_is_refused(tmp_path: Path, facts: dict[str, Any], background: np.ndarray) -> None:
    said = {"vocabulary_size": 7, "eos": 6, "config": {"decay": 0.9}} | facts
    save_arrays(tmp_path / "bad", {"background": background}, {"model": json.dumps(said)})
    with pytest.raises(UserError, match="does not hold a cache"):
        Model.load(tmp_path / "bad")


@pytest.mark.parametrize("decay", [0.0, -1.0, 1.0, float("nan")])
def test_a_decay_is_between_zero_and_one(decay: float) -> None:
    with pytest.raises(UserError, match="above 0 and below 1"):
        Config(decay)
