"""Is a difference real? Where the truth is known, the interval says so as often as it should."""

import numpy as np
import pytest

from chainrule.errors import UserError
from chainrule.evaluation.score import Scores
from chainrule.evaluation.significance import paired_bootstrap


def scores_of(nats: np.ndarray, text_bytes: np.ndarray) -> Scores:
    none = np.zeros(len(nats), np.int64)
    return Scores(
        tokens=none, unknown=none, nats=nats, eos_nats=none, unknown_nats=none, impossible=none,
        text_bytes=text_bytes, characters=text_bytes,
    )  # fmt: skip


def simulate(seed: int, documents: int, bits_per_byte: float, spread: float = 0.3) -> tuple[Scores, Scores]:
    """Two models on documents of all sizes; the first needs `bits_per_byte` more per byte on average."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(20, 400, documents)
    second = sizes * generator.normal(1.5, 0.4, documents)
    gap = sizes * generator.normal(bits_per_byte * np.log(2), spread, documents)
    return scores_of(second + gap, sizes), scores_of(second, sizes)


def test_the_same_scores_do_not_differ() -> None:
    scores, _ = simulate(0, 50, 0.0)
    found = paired_bootstrap(scores, scores)
    assert (found.bits_per_byte, found.low, found.high) == (0, 0, 0)
    assert found.p_value == 1
    assert not found.is_significant


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_clear_difference_is_significant_with_its_sign(sign: int) -> None:
    first, second = simulate(1, 200, sign * 0.5, spread=0.05)
    found = paired_bootstrap(first, second)
    assert found.is_significant
    assert found.p_value < 0.01
    assert np.sign([found.low, found.bits_per_byte, found.high]).tolist() == [sign] * 3
    assert found.low < found.bits_per_byte < found.high
    assert found.bits_per_byte == pytest.approx(sign * 0.5, abs=0.02)


def test_the_difference_is_of_bits_per_byte_of_the_whole_text() -> None:
    first, second = simulate(2, 30, 0.1)
    found = paired_bootstrap(first, second)
    expected = first.summary()["bits_per_byte"] - second.summary()["bits_per_byte"]
    assert found.bits_per_byte == pytest.approx(expected)


def test_swapping_the_models_turns_the_sign() -> None:
    first, second = simulate(3, 40, 0.05)
    forth, back = paired_bootstrap(first, second), paired_bootstrap(second, first)
    assert (forth.bits_per_byte, forth.low, forth.high) == pytest.approx((-back.bits_per_byte, -back.high, -back.low))
    assert forth.p_value == back.p_value


def test_a_seed_gives_the_same_answer_again_and_another_nearly_so() -> None:
    first, second = simulate(4, 100, 0.05)
    assert paired_bootstrap(first, second, seed=7) == paired_bootstrap(first, second, seed=7)
    one, other = paired_bootstrap(first, second, seed=7), paired_bootstrap(first, second, seed=8)
    width = one.high - one.low
    assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=0.15 * width)


@pytest.mark.parametrize("truth", [0.0, 0.04])
def test_the_interval_covers_the_truth_about_95_times_in_100(truth: float) -> None:
    results = [paired_bootstrap(*simulate(seed, 80, truth), rounds=500) for seed in range(200)]
    covered = sum(found.low <= truth <= found.high for found in results)
    assert 176 <= covered <= 200
    assert all(found.is_significant == (not found.low <= 0 <= found.high) for found in results)


def test_the_interval_is_as_wide_as_theory_says() -> None:
    """With documents of one size the difference is a mean: 2 * 1.96 standard errors."""
    generator = np.random.default_rng(5)
    gaps, sizes = generator.normal(0.1, 1.0, 400), np.full(400, 100)
    found = paired_bootstrap(scores_of(gaps, sizes), scores_of(np.zeros(400), sizes), rounds=4000)
    error = gaps.std() / np.log(2) / 100 / np.sqrt(400)
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.06)


@pytest.mark.parametrize("rounds", [1, 99, 100, 101, 250])
def test_as_many_rounds_are_drawn_as_asked_for(rounds: int) -> None:
    first, second = simulate(6, 20, 10.0, spread=0.01)
    found = paired_bootstrap(first, second, rounds=rounds)
    assert found.rounds == rounds
    assert found.p_value == pytest.approx(min(1.0, 2 / (rounds + 1)))


def test_scores_of_other_documents_are_refused() -> None:
    first, second = simulate(7, 20, 0.1)
    shorter = scores_of(second.nats[:-1], second.text_bytes[:-1])
    reordered = scores_of(second.nats[::-1], second.text_bytes[::-1])
    for other in (shorter, reordered):
        with pytest.raises(UserError, match="not scored on the same documents"):
            paired_bootstrap(first, other)


def test_one_document_cannot_be_resampled() -> None:
    first, second = simulate(8, 1, 0.1)
    with pytest.raises(UserError, match="one document cannot be resampled"):
        paired_bootstrap(first, second)


@pytest.mark.parametrize("who", ["first", "second", "both"])
def test_an_impossible_document_cannot_be_compared(who: str) -> None:
    first, second = simulate(9, 20, 0.1)
    if who in ("first", "both"):
        first.nats[3] = np.inf
    if who in ("second", "both"):
        second.nats[3] = np.inf
    with pytest.raises(UserError, match="probability zero"):
        paired_bootstrap(first, second)
