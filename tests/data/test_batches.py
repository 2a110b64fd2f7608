"""Batches are a pure function of the seed and the step; nothing of a text is left out; mixtures keep their weights."""

from collections import Counter

import numpy as np
import pytest

from chainrule.data.batches import Ring, StreamBatches
from chainrule.errors import UserError


def counting(size: int, start: int = 0) -> np.ndarray:
    """A stream whose ring is the tokens start, start + 1, ..., so that a token tells its place."""
    return np.append(np.arange(start, start + size), start)


def segments_by_source(windows: StreamBatches, steps: int) -> np.ndarray:
    """(steps * batch, sources) of ones and zeros, by the thousands that tokens of `counting` are in."""
    firsts = np.concatenate(
        [windows.batch(step).inputs[:, 0] for step in range(0, steps * windows.chain, windows.chain)]
    )
    return np.eye(len(windows.rings), dtype=int)[firsts // 1000]


def test_a_ring_joins_shards_at_the_eos_they_share():
    ring = Ring([np.array([9, 1, 2, 9]), np.array([9, 3, 9]), np.array([9, 4, 5, 9])])
    assert ring.size == 8
    assert ring.take(np.array([0, 6]), 9).tolist() == [[9, 1, 2, 9, 3, 9, 4, 5, 9], [4, 5, 9, 1, 2, 9, 3, 9, 4]]


def test_a_ring_of_several_shards_is_the_ring_of_their_joined_stream():
    stream = counting(101)
    shards = [stream[:41], stream[40:71], stream[70:]]
    starts = np.array([0, 5, 39, 40, 69, 100, 1234])
    np.testing.assert_array_equal(Ring(shards).take(starts, 120), Ring([stream]).take(starts, 120))


def test_no_text_is_refused():
    with pytest.raises(UserError, match="there is no text to train on"):
        Ring([np.array([3])])


@pytest.mark.parametrize("chain", [1, 4])
@pytest.mark.parametrize("sources", [1, 3])
def test_a_window_is_the_same_whenever_and_in_whatever_order_it_is_asked_for(chain, sources):
    rings = [Ring([counting(size, 1000 * i)]) for i, size in enumerate((307, 90, 55)[:sources])]

    def make():
        return StreamBatches(rings, (5.0, 2.0, 1.0)[:sources], batch_size=3, length=7, chain=chain, seed=4)

    in_order = make()
    expected = [in_order.batch(step) for step in range(200)]
    shuffled, alone = make(), np.random.default_rng(0).permutation(200)
    for step in [*alone, *alone[::-1]]:
        found = shuffled.batch(int(step))
        np.testing.assert_array_equal(found.inputs, expected[step].inputs)
        np.testing.assert_array_equal(found.targets, expected[step].targets)
        assert found.is_fresh == expected[step].is_fresh
        assert shuffled.epochs(int(step)) == in_order.epochs(int(step))
    np.testing.assert_array_equal(make().batch(163).inputs, expected[163].inputs)


def test_another_seed_is_another_order():
    ring = Ring([counting(500)])
    one, other = (StreamBatches([ring], [1.0], 4, 10, seed=seed).batch(0).inputs for seed in (0, 1))
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("chain", [1, 5])
def test_targets_are_inputs_shifted_by_one(chain):
    windows = StreamBatches([Ring([counting(211)])], [1.0], batch_size=4, length=9, chain=chain)
    for step in range(60):
        window = windows.batch(step)
        assert window.inputs.shape == window.targets.shape == (4, 9)
        np.testing.assert_array_equal(window.inputs[:, 1:], window.targets[:, :-1])
        np.testing.assert_array_equal(window.targets, (window.inputs + 1) % 211)  # the next token of the ring itself


def test_a_chain_is_contiguous_text():
    windows = StreamBatches([Ring([counting(997)])], [1.0], batch_size=3, length=8, chain=6)
    for turn in range(20):
        links = [windows.batch(turn * 6 + link) for link in range(6)]
        assert [link.is_fresh for link in links] == [True, False, False, False, False, False]
        rows = np.concatenate([link.inputs for link in links], 1)  # (batch, 48)
        np.testing.assert_array_equal(rows, (rows[:, :1] + np.arange(48)) % 997)


@pytest.mark.parametrize(
    ("size", "length", "chain"), [(100, 10, 1), (103, 10, 1), (103, 10, 3), (64, 64, 1), (65, 16, 4)]
)
def test_an_epoch_reads_every_token_and_few_twice(size, length, chain):
    windows = StreamBatches([Ring([counting(size)])], [1.0], batch_size=1, length=length, chain=chain, seed=2)
    segments = -(-size // (length * chain))
    for epoch in range(5):
        steps = range(epoch * segments * chain, (epoch + 1) * segments * chain)
        seen = Counter(np.concatenate([windows.batch(step).inputs.ravel() for step in steps]).tolist())
        assert sorted(seen) == list(range(size))
        assert max(seen.values()) <= 2
        assert sum(seen.values()) == segments * chain * length


def test_epochs_begin_at_different_places_and_go_in_different_orders():
    windows = StreamBatches([Ring([counting(1000)])], [1.0], batch_size=1, length=10)
    epochs = [[int(windows.batch(100 * epoch + i).inputs[0, 0]) for i in range(100)] for epoch in range(6)]
    assert len({min(starts) for starts in epochs}) > 1
    assert len({tuple(starts) for starts in epochs}) == 6
    assert all(starts != sorted(starts) for starts in epochs)


def test_epochs_are_tokens_by_the_size_of_the_text():
    windows = StreamBatches([Ring([counting(120)])], [1.0], batch_size=3, length=10, chain=2)
    assert [windows.epochs(step) for step in (0, 1, 2, 4, 7)] == [[0.0], [0.25], [0.5], [1.0], [1.75]]


@pytest.mark.parametrize(
    "weights", [(1, 1), (0.7, 0.3), (3, 1), (0.99, 0.01), (1, 1, 1), (0.6, 0.22, 0.08, 0.08, 0.03), (1, 5, 2, 2, 1, 1)]
)
def test_drawn_shares_are_the_weights_within_one_segment_at_any_moment(weights):
    rings = [Ring([counting(997, 1000 * i)]) for i in range(len(weights))]
    windows = StreamBatches(rings, weights, batch_size=7, length=5, chain=3)
    given = np.cumsum(segments_by_source(windows, 600), 0)
    shares = np.array(weights) / sum(weights)
    away = np.abs(given - np.arange(1, len(given) + 1)[:, None] * shares)
    assert away.max() < 1


def test_epochs_of_a_mixture_count_what_was_read():
    rings = [Ring([counting(size, 1000 * i)]) for i, size in enumerate((400, 70))]
    windows = StreamBatches(rings, (3, 1), batch_size=5, length=6, chain=4)
    read = np.zeros(2)
    for step in range(61):
        assert windows.epochs(step) == pytest.approx(read * 6 / (400, 70))
        sources = windows.batch(step).inputs[:, 0] // 1000
        read += np.bincount(sources, minlength=2)


def test_each_source_of_a_mixture_is_read_whole_in_each_of_its_epochs():
    rings = [Ring([counting(size, 1000 * i)]) for i, size in enumerate((90, 31))]
    windows = StreamBatches(rings, (1, 2), batch_size=4, length=5)
    rows = np.concatenate([windows.batch(step).inputs for step in range(200)])
    for source, segments in ((0, 18), (1, 7)):
        of_source = rows[rows[:, 0] // 1000 == source]
        for epoch in range(5):
            seen = set(of_source[epoch * segments : (epoch + 1) * segments].ravel().tolist())
            assert len(seen) == rings[source].size


def test_far_steps_of_a_mixture_cost_no_more_than_near_ones():
    """Nothing is counted up from the beginning: this would take hours."""
    windows = StreamBatches(
        [Ring([counting(50)]), Ring([counting(50, 1000)])], (2, 1), batch_size=64, length=8, chain=2
    )
    far = 10**11
    assert windows.epochs(far) == pytest.approx([far * 64 * 8 * 2 / 3 / 50, far * 64 * 8 / 3 / 50])
    assert windows.batch(far).inputs.shape == (64, 8)


def test_a_text_shorter_than_a_window_is_one_window():
    windows = StreamBatches([Ring([counting(5)])], [1.0], batch_size=2, length=100, chain=8)
    assert (windows.length, windows.chain, windows.tokens_per_step) == (5, 1, 10)
    window = windows.batch(3)
    assert [sorted(row) for row in window.inputs.tolist()] == [[0, 1, 2, 3, 4]] * 2
    np.testing.assert_array_equal(window.targets, (window.inputs + 1) % 5)


def test_a_text_shorter_than_a_batch_is_read_several_times_in_one():
    windows = StreamBatches([Ring([counting(20)])], [1.0], batch_size=16, length=8)
    window = windows.batch(0)
    assert np.bincount(window.inputs.ravel(), minlength=20).min() >= 5  # five whole epochs of three windows
    assert windows.epochs(1) == [16 * 8 / 20]


def test_a_text_shorter_than_a_chain_shortens_the_chain():
    windows = StreamBatches([Ring([counting(50)])], [1.0], batch_size=2, length=20, chain=10)
    assert (windows.length, windows.chain) == (20, 2)


def test_a_tiny_source_does_not_shorten_the_windows_of_the_others():
    windows = StreamBatches(
        [Ring([counting(900)]), Ring([counting(7, 1000)])], (9, 1), batch_size=10, length=64, chain=4
    )
    assert (windows.length, windows.chain) == (64, 4)
    rows = windows.batch(1).inputs
    small = rows[rows[:, 0] >= 1000]
    assert len(small) == 1
    np.testing.assert_array_equal(small[0, :7], small[0, 7:14])  # round and round


def test_one_token_is_text_enough():
    window = StreamBatches([Ring([np.array([4, 4])])], [1.0], batch_size=2, length=3).batch(5)
    assert window.inputs.tolist() == window.targets.tolist() == [[4], [4]]
