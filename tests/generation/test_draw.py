"""Choosing a token: the chain of filters, and one uniform number read off the running total."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.generation.draw import cumulative_distribution, draw, draw_ids, invert_cdf, probabilities
from chainrule.generation.processors import LogitsProcessor
from chainrule.generation.settings import Sampling

from .test_filters import (
    LOGITS,
    NOTHING,
    naive_min_p,
    naive_penalty,
    naive_top_k,
    naive_top_p,
    softmax,
)

ALMOST_ONE = float(np.nextafter(1, 0))


@pytest.mark.parametrize("seed", range(20))
def test_the_filters_come_in_hugging_face_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    row = random.normal(size=600) * 4
    row[random.integers(0, 600, 50)] = NOTHING
    seen = random.integers(0, 600, 100).tolist()
    settings = Sampling(temperature=0.7, top_k=40, top_p=0.85, min_p=0.03, repetition_penalty=1.3)
    processed = LogitsProcessor(settings, seen, ())(row)
    ours = probabilities(processed[None], settings)[0]
    expected = [value / 0.7 for value in naive_penalty(row.tolist(), seen, 1.3)]
    expected = naive_min_p(naive_top_p(naive_top_k(expected, 40), 0.85), 0.03)
    np.testing.assert_allclose(ours, softmax(expected), rtol=1e-9)


@given(LOGITS, st.floats(0, 1, exclude_max=True))
def test_a_token_of_probability_zero_is_never_chosen(row: list[float], uniform: float) -> None:
    logits = np.array([row])
    for number in (0.0, uniform, ALMOST_ONE):
        assert row[invert_cdf(logits, np.array([number]))[0]] > NOTHING


@pytest.mark.parametrize("width", [1, 255, 256, 257, 1000])
def test_the_ends_of_the_interval_choose_the_first_and_last_possible_token(width: int) -> None:
    logits = np.full((1, width + 2), NOTHING)
    logits[0, 1 : width + 1] = 0.0
    assert invert_cdf(logits, np.array([0.0])) == [1]
    assert invert_cdf(logits, np.array([ALMOST_ONE])) == [width]


@pytest.mark.parametrize("width", [3, 256, 700])
def test_choosing_is_the_inverse_of_the_cumulative_distribution(width: int) -> None:
    logits = np.random.default_rng(width).normal(size=(1, width)) * 2
    totals = np.cumsum(softmax(logits[0].tolist()))
    edges = np.concatenate([[0.0], totals])
    for index in range(width):
        middle = (edges[index] + edges[index + 1]) / 2
        assert invert_cdf(logits, np.array([middle]))[0] == index


@given(LOGITS)
def test_temperature_zero_chooses_the_first_most_likely_whatever_the_number(row: list[float]) -> None:
    logits = np.array([row, row])
    chosen = draw_ids(logits, Sampling(temperature=0), np.array([0.0, ALMOST_ONE]))
    assert chosen.tolist() == [row.index(max(row))] * 2


def test_chosen_ids_are_those_of_the_whole_vocabulary_after_top_k() -> None:
    logits = np.zeros((2, 500))
    logits[0, [100, 400]] = 50.0
    logits[1, [7, 8]] = 50.0
    settings = Sampling(top_k=2)
    assert draw_ids(logits, settings, np.array([0.2, 0.2])).tolist() == [100, 7]
    assert draw_ids(logits, settings, np.array([0.7, 0.7])).tolist() == [400, 8]


@pytest.mark.parametrize("width", [3, 256, 700])
@pytest.mark.parametrize(
    "settings",
    [
        Sampling(),
        Sampling(temperature=0.5, top_k=20),
        Sampling(top_p=0.7, typical_p=0.9),
        Sampling(temperature=0),
    ],
)
def test_the_line_has_every_number_where_it_is_drawn(width: int, settings: Sampling) -> None:
    random = np.random.default_rng(width)
    logits = random.normal(size=width) * 3
    ids, ends = cumulative_distribution(logits, settings)
    expected = probabilities(logits[None], settings)[0]
    np.testing.assert_allclose(np.diff(ends, prepend=0), expected[ids], atol=1e-6)
    assert ends[-1] == pytest.approx(1, abs=1e-12)
    assert (np.diff(ids) > 0).all()
    for uniform in random.random(200):
        place = int((ends <= uniform).sum())
        assert draw_ids(logits[None], settings, np.array([uniform])) == [ids[place]]


@given(LOGITS)
def test_log_normalizer_is_the_log_of_the_summed_exponentials(row: list[float]) -> None:
    top = max(row)
    expected = top + math.log(math.fsum(math.exp(value - top) for value in row))
    logits = np.array([row])
    found = draw(logits, Sampling(), np.array([0.5])).log_normalizer
    assert found[0] == pytest.approx(expected, abs=2e-6)


def test_logits_far_apart_give_no_nan_and_no_warning() -> None:
    logits = np.array([[1e300, -1e300, NOTHING]])
    assert invert_cdf(logits, np.array([ALMOST_ONE])) == [0]
