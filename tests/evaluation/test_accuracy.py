"""Accuracies by hand."""

import numpy as np
import pytest

from chainrule.evaluation.accuracy import Confusion, Label, Part

RIGHT = ["N", "N", "N", "V", "V", "D", "N"]
GIVEN = ["N", "V", "V", "V", "N", "D", "X"]


@pytest.fixture
def confusion() -> Confusion:
    return Confusion.count(RIGHT, GIVEN)


def test_rows_are_right_and_columns_given(confusion: Confusion):
    assert confusion.labels == ["D", "N", "V", "X"]
    assert confusion.counts.tolist() == [[1, 0, 0, 0], [0, 1, 2, 1], [0, 1, 1, 0], [0, 0, 0, 0]]


def test_accuracy_is_the_share_of_the_diagonal(confusion: Confusion):
    assert confusion.all == Part(words=7, correct=3)
    assert confusion.all.accuracy == pytest.approx(np.mean(np.array(RIGHT) == np.array(GIVEN)))
    assert Part(0, 0).accuracy is None


def test_each_label_by_hand(confusion: Confusion):
    labels = {each.label: each for each in confusion.by_label()}
    assert labels["N"] == Label("N", words=4, given=2, correct=1)
    assert (labels["N"].precision, labels["N"].recall) == (1 / 2, 1 / 4)
    assert labels["N"].f1 == pytest.approx(2 * (1 / 2) * (1 / 4) / (1 / 2 + 1 / 4))
    assert (labels["X"].precision, labels["X"].recall, labels["X"].f1) == (0, None, 0)


def test_mistakes_come_in_the_order_of_their_number(confusion: Confusion):
    assert confusion.mistakes(2) == [("N", "V", 2), ("N", "X", 1)]
    assert confusion.mistakes(10) == [("N", "V", 2), ("N", "X", 1), ("V", "N", 1)]
