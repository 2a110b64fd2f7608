"""The figures of a loss, by hand."""

from math import exp, log

import pytest

from chainrule.evaluation.figures import loss_figures
from chainrule.evaluation.validation import figures_of


def test_a_loss_of_two_bits_per_token_of_four_bytes():
    found = loss_figures(2 * log(2), bytes_per_token=4.0)
    assert found["loss"] == 2 * log(2)
    assert found["perplexity"] == pytest.approx(4)
    assert found["bits_per_byte"] == pytest.approx(0.5)


def test_without_the_bytes_of_a_token_there_are_no_bits_per_byte():
    assert (
        loss_figures(1.0, None) == figures_of(1.0, None) == {"loss": 1.0, "perplexity": exp(1), "bits_per_byte": None}
    )


def test_a_perplexity_too_large_for_a_float_is_cut():
    assert loss_figures(1e6, None)["perplexity"] == exp(700)
