"""Chinchilla's advice (Hoffmann et al., 2022)."""

import math

import pytest

from chainrule.analysis.plan.advice import advise, best_for, expected_loss


def test_the_best_spends_all_the_compute_at_twenty_tokens_per_parameter():
    parameters, tokens = best_for(5.88e23)
    assert 6 * parameters * tokens == pytest.approx(5.88e23)
    assert tokens / parameters == pytest.approx(20)
    assert parameters == pytest.approx(70e9, rel=0.01)  # Chinchilla itself: 70B on 1.4T tokens
    assert tokens == pytest.approx(1.4e12, rel=0.01)


def test_the_fit_prefers_chinchilla_to_gopher():
    """The paper's point: 70B on 1.4T tokens beat 280B on 300B, which took the same compute."""
    assert expected_loss(70e9, 1.4e12) == pytest.approx(1.94, abs=0.01)
    assert expected_loss(280e9, 300e9) == pytest.approx(1.99, abs=0.01)


def test_a_forecast_says_when_it_leaves_the_fit():
    assert not advise(10**9, 20 * 10**9, 1.2e20, 50_257).is_extrapolated
    assert advise(175 * 10**9, 300 * 10**9, 3.14e23, 50_257).is_extrapolated


def test_no_forecast_worse_than_guessing():
    advice = advise(10**5, 10**6, 6e11, 256)
    assert expected_loss(10**5, 10**6) > math.log(256)
    assert advice.expected_loss is None
