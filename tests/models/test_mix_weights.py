"""Weights by EM: the maximum that a fine grid finds, climbed without a step down."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.models import _mix_weights as em


def random_text(parts: int, tokens: int, seed: int = 0) -> np.ndarray:
    """log p (parts, tokens): each part good at some tokens and bad at others."""
    return np.log(np.random.default_rng(seed).beta(0.4, 1.0, (parts, tokens)) + 1e-4)


def objective(weights: np.ndarray, log_p: np.ndarray, prior: np.ndarray, prior_tokens: float) -> float:
    """Σ_t log Σ_i λ_i p_i(w_t) + c Σ_i π_i log λ_i, written out."""
    return float(np.log(weights @ np.exp(log_p)).sum() + prior_tokens * (prior * np.log(weights)).sum())


def best_of_grid(log_p: np.ndarray, prior: np.ndarray, prior_tokens: float) -> float:
    """The first of two weights, by trying them all."""
    shares = np.arange(1, 20000) / 20000
    mixed = np.log(np.exp(log_p[0])[:, None] * shares + np.exp(log_p[1])[:, None] * (1 - shares)).sum(0)
    mixed += prior_tokens * (prior[0] * np.log(shares) + prior[1] * np.log(1 - shares))
    return float(shares[np.argmax(mixed)])


@pytest.mark.parametrize("seed", range(5))
def test_two_weights_are_those_of_a_fine_grid(seed: int) -> None:
    log_p = random_text(2, 500, seed)
    expected = best_of_grid(log_p, np.array([0.5, 0.5]), em.PRIOR_TOKENS)
    assert 0.1 < expected < 0.9
    assert em.fit_weights(log_p) == pytest.approx([expected, 1 - expected], abs=2e-3)


def test_a_strong_prior_is_weighed_against_the_text_as_the_grid_does() -> None:
    log_p, prior = random_text(2, 80, 3), np.array([0.95, 0.05])
    expected = best_of_grid(log_p, prior, 100.0)
    without = best_of_grid(log_p, prior, 1e-9)
    assert abs(expected - without) > 0.1
    assert em.fit_weights(log_p, prior, 100.0)[0] == pytest.approx(expected, abs=2e-3)


@given(parts=st.integers(2, 5), tokens=st.integers(1, 60), seed=st.integers(0, 10**6), strength=st.floats(0.01, 50))
@settings(max_examples=60, deadline=None)
def test_no_round_lowers_the_likelihood(parts: int, tokens: int, seed: int, strength: float) -> None:
    log_p = random_text(parts, tokens, seed)
    prior = np.random.default_rng(seed).dirichlet(np.ones(parts)) * 0.9 + 0.1 / parts
    weights = np.full(parts, 1 / parts)
    climbed = [objective(weights, log_p, prior, strength)]
    for _ in range(20):
        weights = weights * em.slopes(weights, em.relative(log_p), prior, strength)
        assert weights.sum() == pytest.approx(1)
        climbed.append(objective(weights, log_p, prior, strength))
    assert (np.diff(climbed) >= -1e-9).all()


def test_no_other_weights_are_better_by_more_than_was_promised() -> None:
    """Of four parts, against two thousand random weights and all small moves."""
    log_p, prior = random_text(4, 300), np.full(4, 0.25)
    weights = em.fit_weights(log_p)
    found = objective(weights, log_p, prior, em.PRIOR_TOKENS)
    generator = np.random.default_rng(1)
    others = [*generator.dirichlet(np.ones(4), 1000), *generator.dirichlet(1 + 1000 * weights, 1000)]
    best = max(objective(each, log_p, prior, em.PRIOR_TOKENS) for each in others)
    assert best <= found + (300 + em.PRIOR_TOKENS) * em.CLOSE_ENOUGH


def test_weights_by_hand() -> None:
    """Parts that each explain a text of their own alone: weights are the shares, with the prior's tokens halved."""
    log_p = np.full((2, 10), -np.inf)
    log_p[0, :7] = log_p[1, 7:] = np.log(0.5)
    assert em.PRIOR_TOKENS == 0.1
    assert em.fit_weights(log_p) == pytest.approx([7.05 / 10.1, 3.05 / 10.1], rel=1e-4)


def test_impossible_tokens_tell_nothing() -> None:
    log_p = random_text(2, 200)
    with_impossible = np.concatenate([log_p, np.full((2, 50), -np.inf)], 1)
    np.testing.assert_array_equal(em.fit_weights(with_impossible), em.fit_weights(log_p))
    assert em.fit_weights(with_impossible[:, 200:]).tolist() == [0.5, 0.5]


def test_probabilities_too_small_for_numbers_are_weighed_all_the_same() -> None:
    log_p = random_text(2, 300)
    np.testing.assert_allclose(em.fit_weights(log_p - 2000), em.fit_weights(log_p), rtol=1e-6)


def test_each_bucket_has_the_maximum_of_its_own_text_and_the_common_prior() -> None:
    log_p = np.concatenate([random_text(2, 4000, 1), random_text(2, 30, 2) + np.array([[1.0], [0.0]])], 1)
    buckets = np.repeat([0, 2], [4000, 30])
    weights = em.fit_buckets(log_p, buckets, 3)
    everywhere = em.fit_weights(log_p)
    np.testing.assert_allclose(weights[1], everywhere, rtol=1e-12)  # no text at all
    for bucket in (0, 2):
        expected = best_of_grid(log_p[:, buckets == bucket], everywhere, em.BUCKET_PRIOR_TOKENS)
        assert weights[bucket, 0] == pytest.approx(expected, abs=2e-3)
    alone = best_of_grid(log_p[:, buckets == 2], everywhere, 1e-9)
    assert abs(weights[2, 0] - everywhere[0]) < abs(alone - everywhere[0])  # thirty tokens lean on the rest


def test_one_bucket_is_the_whole_text() -> None:
    log_p = random_text(3, 200)
    np.testing.assert_array_equal(em.fit_buckets(log_p, np.zeros(200, int), 1), em.fit_weights(log_p)[None])
