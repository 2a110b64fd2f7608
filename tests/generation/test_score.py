"""Scores of a given text equal the model's own probabilities."""

import numpy as np
import pytest

from chainrule.errors import UserError
from chainrule.generation import log_probabilities
from chainrule.models.contract import Batch, LanguageModel

from .toys import LimitedContext, TableBigram, TorchBigram, Total, log_softmax, random_table

EOS = 5
TABLE = random_table(6, seed=4)


@pytest.mark.parametrize("architecture", [TableBigram, TorchBigram])
def test_every_token_and_the_end_are_scored_given_what_came_before(architecture: type) -> None:
    expected = [log_softmax(TABLE[before])[after] for before, after in [(EOS, 2), (2, 0), (0, 0), (0, EOS)]]
    np.testing.assert_allclose(log_probabilities(architecture(TABLE), [2, 0, 0], EOS), expected, rtol=1e-12)


def test_an_empty_document_has_only_its_end() -> None:
    np.testing.assert_allclose(log_probabilities(Total(TABLE), [], EOS), [log_softmax(TABLE[EOS])[EOS]])


def test_scores_add_up_to_the_loss_of_the_document() -> None:
    class Model(Total, LanguageModel):
        pass

    loss = Model(TABLE).loss(Batch(np.array([[EOS, 1, 2, 3]]), np.array([[1, 2, 3, EOS]])))
    assert log_probabilities(Model(TABLE), [1, 2, 3], EOS).sum() == pytest.approx(-loss.total)


def test_an_impossible_token_scores_minus_infinity_and_never_nan() -> None:
    table = TABLE.copy()
    table[1, 2] = -np.inf
    table[2] = -np.inf
    scores = log_probabilities(TableBigram(table), [1, 2, 3], EOS)
    assert np.isfinite(scores[[0, 3]]).all() and (scores[[1, 2]] == -np.inf).all()


def test_a_text_longer_than_the_context_is_refused() -> None:
    with pytest.raises(UserError, match="the text has 5 tokens but this model reads 4"):
        log_probabilities(LimitedContext(TABLE, 4), [0, 1, 2, 3], EOS)
