"""The filters against plain loops written from their definitions, Hugging Face's order and conventions."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chainrule.generation import filters

NOTHING = -math.inf
LOGITS = st.lists(
    st.one_of(st.floats(-30, 30), st.sampled_from([0.0, 1.0, -1.0]), st.just(NOTHING)),
    min_size=1,
    max_size=40,
).filter(lambda row: max(row) > NOTHING)
SHARES = st.floats(0, 1)


def softmax(row: list[float]) -> list[float]:
    top = max(row)
    weights = [math.exp(value - top) for value in row]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def by_rank(row: list[float]) -> list[int]:
    """Most likely first; of equal ones, the lower id first."""
    return sorted(range(len(row)), key=lambda index: (-row[index], index))


def naive_top_k(row: list[float], count: int) -> list[float]:
    kept = by_rank(row)[: count or len(row)]
    return [value if index in kept else NOTHING for index, value in enumerate(row)]


def naive_top_p(row: list[float], mass: float) -> list[float]:
    share, kept, total = softmax(row), [], 0.0
    for index in by_rank(row):
        kept.append(index)
        total += share[index]
        if total >= mass:
            break
    return [value if index in kept else NOTHING for index, value in enumerate(row)]


def naive_min_p(row: list[float], ratio: float) -> list[float]:
    share = softmax(row)
    return [
        value if probability >= ratio * max(share) else NOTHING for value, probability in zip(row, share, strict=True)
    ]


def naive_penalty(row: list[float], seen: list[int], penalty: float) -> list[float]:
    penalized = list(row)
    for index in set(seen):
        penalized[index] = row[index] / penalty if row[index] > 0 else row[index] * penalty
    return penalized


def same_distribution(ours: np.ndarray, reference: list[float]) -> None:
    np.testing.assert_allclose(softmax(ours.tolist()), softmax(reference), rtol=1e-9, atol=1e-12)


@given(LOGITS, st.floats(0.05, 20))
def test_temperature_divides_the_logits(row: list[float], value: float) -> None:
    same_distribution(filters.temperature(np.array([row]), value)[0], [logit / value for logit in row])


@given(LOGITS)
def test_temperature_zero_leaves_only_the_first_of_the_most_likely(row: list[float]) -> None:
    kept = filters.temperature(np.array([row]), 0)[0]
    assert np.flatnonzero(kept > NOTHING).tolist() == [row.index(max(row))]


@pytest.mark.parametrize("value", [1e-300, 5e-324, 1e-10, 1e10, 1e300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_temperatures_give_no_nan(value: float, dtype: type) -> None:
    scaled = filters.temperature(np.array([[3.0, 2.0, NOTHING, -50.0]], dtype), value)[0]
    assert not np.isnan(scaled).any() and scaled[2] == NOTHING and scaled.argmax() == 0


@given(LOGITS, st.integers(0, 50))
def test_top_k_keeps_exactly_the_k_most_likely(row: list[float], count: int) -> None:
    assert filters.top_k(np.array([row]), count)[0].tolist() == naive_top_k(row, count)


@given(LOGITS, st.integers(1, 50))
def test_largest_names_the_tokens_top_k_keeps(row: list[float], count: int) -> None:
    assert filters.largest(np.array([row]), count)[0].tolist() == sorted(by_rank(row)[:count])


@given(LOGITS, SHARES)
def test_top_p_keeps_the_smallest_set_with_that_mass(row: list[float], mass: float) -> None:
    # At an exact tie between a sum and p, rounding decides; the next test covers those.
    ranked = np.cumsum(sorted(softmax(row), reverse=True))
    assume(np.abs(ranked - mass).min() > 1e-9 and mass < 1 - 1e-9)
    assert filters.top_p(np.array([row]), mass)[0].tolist() == naive_top_p(row, mass)


@pytest.mark.parametrize(("mass", "kept"), [(0, 1), (0.5, 1), (0.51, 2), (0.8, 2), (0.9, 3), (1, 4)])
def test_top_p_counts_a_sum_that_equals_p_as_reached(mass: float, kept: int) -> None:
    logits = np.log(np.array([[0.06, 0.5, 0.14, 0.3]]))
    assert (filters.top_p(logits, mass) > NOTHING).sum() == kept


def test_top_p_of_equal_tokens_keeps_the_first_ones_and_no_more() -> None:
    assert np.flatnonzero(filters.top_p(np.zeros((1, 10)), 0.5)[0] > NOTHING).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("mass", [0.3, 0.9, 0.99, 0.9999])
@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0])
def test_top_p_of_a_large_vocabulary_equals_a_full_sort(mass: float, spread: float) -> None:
    row = (np.random.default_rng(1).normal(size=9000) * spread).tolist()
    other = (np.random.default_rng(2).normal(size=9000) * 9).tolist()
    ours = filters.top_p(np.array([row, other]), mass)
    for found, logits in zip(ours, [row, other], strict=True):
        kept = set(np.flatnonzero(found > NOTHING).tolist())
        ranked = by_rank(logits)
        assert kept == set(ranked[: len(kept)])
        share = softmax(logits)
        assert math.fsum(share[index] for index in kept) >= mass * (1 - 1e-9)
        assert math.fsum(share[index] for index in ranked[: len(kept) - 1]) < mass


@given(LOGITS, SHARES)
def test_min_p_keeps_what_is_likely_enough_beside_the_likeliest(row: list[float], ratio: float) -> None:
    share = np.array(softmax(row))
    assume(ratio < 1e-300 or np.abs(share / share.max() - ratio).min() > 1e-9)
    assume(ratio == 0 or ratio > 1e-300)
    ours = filters.min_p(np.array([row]), ratio)[0]
    same_distribution(ours, naive_min_p(row, ratio))


def test_min_p_one_keeps_every_token_as_likely_as_the_likeliest() -> None:
    assert (filters.min_p(np.array([[2.0, 1.0, 2.0, NOTHING]]), 1.0)[0] > NOTHING).tolist() == [
        True,
        False,
        True,
        False,
    ]


@given(LOGITS, st.lists(st.integers(0, 39), max_size=20), st.floats(0.1, 10))
def test_repetition_penalty_divides_positive_and_multiplies_negative_logits(
    row: list[float], seen: list[int], penalty: float
) -> None:
    seen = [index for index in seen if index < len(row)]
    mask = np.zeros((1, len(row)), bool)
    mask[0, seen] = True
    before = np.array([row])
    assert filters.repetition_penalty(before, mask, penalty)[0].tolist() == naive_penalty(row, seen, penalty)
    assert before[0].tolist() == row  # the argument is left alone


@given(LOGITS, st.integers(0, 50), SHARES, SHARES, st.floats(0, 5))
def test_an_impossible_token_stays_impossible_and_something_is_left(
    row: list[float], count: int, mass: float, ratio: float, value: float
) -> None:
    logits = np.array([row])
    for filtered in (
        filters.temperature(logits, value),
        filters.top_k(logits, count),
        filters.top_p(logits, mass),
        filters.min_p(logits, ratio),
        filters.repetition_penalty(logits, np.ones(logits.shape, bool), 1.5),
    ):
        assert not np.isnan(filtered).any()
        assert (filtered[logits == NOTHING] == NOTHING).all()
        assert filtered.max() > NOTHING


@given(
    st.lists(st.lists(st.floats(-9, 9), min_size=7, max_size=7), min_size=1, max_size=5),
    SHARES,
    st.integers(0, 9),
)
def test_rows_of_a_batch_do_not_touch_each_other(rows: list[list[float]], share: float, count: int) -> None:
    for apply in (
        lambda logits: filters.temperature(logits, share),
        lambda logits: filters.top_k(logits, count),
        lambda logits: filters.top_p(logits, share),
        lambda logits: filters.min_p(logits, share),
    ):
        alone = [apply(np.array([row]))[0] for row in rows]
        np.testing.assert_array_equal(apply(np.array(rows)), alone)
