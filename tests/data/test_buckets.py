"""Batches of rows of similar length: every row once an epoch, the same whenever asked."""

from itertools import pairwise

import numpy as np
import pytest

from chainrule.data.buckets import Buckets

LENGTHS = np.random.default_rng(0).geometric(0.1, 500)


@pytest.mark.parametrize("epoch", [0, 1, 7])
def test_an_epoch_has_every_row_once(epoch: int):
    buckets = Buckets(LENGTHS, 100)
    rows = np.concatenate([buckets.rows(epoch * len(buckets) + at) for at in range(len(buckets))])
    assert sorted(rows) == list(range(len(LENGTHS)))


def test_rows_of_a_batch_are_of_similar_length_and_fill_it():
    """Padded batches hold 100 tokens or one long row, and one row more would be too much."""
    buckets = Buckets(LENGTHS, 100)
    found = [LENGTHS[buckets.rows(step)] for step in range(len(buckets))]
    found.sort(key=lambda each: (each.min(), each.max()))
    assert all(len(each) * each.max() <= 100 or len(each) == 1 for each in found)
    assert all(each.max() <= after.min() for each, after in pairwise(found))
    assert all((len(each) + 1) * after.min() > 100 for each, after in pairwise(found))


def test_the_same_step_is_the_same_batch_and_epochs_differ():
    one, two = Buckets(LENGTHS, 100, seed=3), Buckets(LENGTHS, 100, seed=3)
    assert all(np.array_equal(one.rows(step), two.rows(step)) for step in (0, 5, 300, 5))
    other = Buckets(LENGTHS, 100, seed=4)
    assert any(not np.array_equal(one.rows(step), other.rows(step)) for step in range(5))
    again = [one.rows(step + len(one)) for step in range(len(one))]
    assert any(not np.array_equal(one.rows(step), again[step]) for step in range(len(one)))
