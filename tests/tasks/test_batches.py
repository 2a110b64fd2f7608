"""Batches of pairs: every pair once an epoch, no batch too large, the same step always the same."""

import numpy as np
import pytest

from chainrule.models.contract import IGNORE
from chainrule.tasks._batches import PairBatches, training_batch

EOS, END = 99, 98  # of targets, of sources


def pairs(count: int = 300) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The first id of each side is the number of the pair."""
    generator = np.random.default_rng(0)
    sides = [
        [np.append(i, generator.integers(0, 90, generator.integers(0, 12))) for i in range(count)] for _ in range(2)
    ]
    return sides[0], sides[1]


def make(tokens: int = 64, seed: int = 0) -> PairBatches:
    return PairBatches(*pairs(), (EOS, EOS), tokens, seed)


def numbers(batches: PairBatches, epoch: int) -> list[int]:
    steps = range(epoch * batches.per_epoch, (epoch + 1) * batches.per_epoch)
    return [int(row) for step in steps for row in batches.batch(step).inputs[:, 1]]


def test_an_epoch_has_every_pair_once_in_an_order_of_its_own():
    batches = make()
    assert sorted(numbers(batches, 0)) == sorted(numbers(batches, 1)) == list(range(300))
    assert numbers(batches, 0) != numbers(batches, 1)
    assert batches.epochs(3 * batches.per_epoch) == [3.0]


def test_sources_stay_with_their_targets():
    batches = make()
    for step in range(batches.per_epoch):
        window = batches.batch(step)
        np.testing.assert_array_equal(window.condition["source"][:, 0], window.inputs[:, 1])


def test_no_batch_holds_more_than_its_tokens():
    batches = make(tokens=64)
    for step in range(batches.per_epoch):
        window = batches.batch(step)
        rows = len(window.inputs)
        sizes = window.condition["lengths"] + (window.targets != IGNORE).sum(1)
        assert rows == 1 or rows * sizes.max() <= 128
        assert rows <= batches.batch_size and window.inputs.shape[1] <= batches.length


def test_tokens_of_an_epoch_are_those_of_its_targets():
    batches = make()
    asked = sum(int((batches.batch(step).targets != IGNORE).sum()) for step in range(batches.per_epoch))
    assert asked == batches.tokens_per_epoch == round(batches.tokens_per_step * batches.per_epoch)


def test_a_step_reads_the_same_whenever_it_is_asked_for_and_another_seed_something_else():
    first, again, other = make(), make(), make(seed=1)
    again.batch(700)
    np.testing.assert_array_equal(first.batch(5).inputs, again.batch(5).inputs)
    assert numbers(first, 0) != numbers(other, 0)


def test_a_window_is_padded_by_hand():
    window = training_batch([np.array([1, 2]), np.array([3])], [np.array([4]), np.array([5, 6])], (END, EOS))
    assert window.inputs.tolist() == [[EOS, 4, EOS], [EOS, 5, 6]]
    assert window.targets.tolist() == [[4, EOS, IGNORE], [5, 6, EOS]]
    assert window.condition["source"].tolist() == [[1, 2, END], [3, END, END]]
    assert window.condition["lengths"].tolist() == [3, 2]


def test_a_pair_larger_than_a_batch_is_a_batch_of_its_own():
    batches = PairBatches([np.arange(50)] * 2, [np.arange(50)] * 2, (EOS, EOS), 16, 0)
    assert [len(batches.batch(step).inputs) for step in range(2)] == [1, 1]
    assert batches.per_epoch == 2


@pytest.mark.parametrize("tokens", [1, 40, 100_000])
def test_every_size_of_batch_covers_the_epoch(tokens):
    assert sorted(numbers(make(tokens), 0)) == list(range(300))
