"""Windows that begin anywhere in an array of tokens, as most training scripts draw them."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import chainrule
from chainrule.errors import UserError


def test_targets_are_the_inputs_a_token_further_on():
    tokens = np.arange(100) * 7 % 1000
    for x, y in islice(chainrule.random_windows(tokens, batch_size=8, context_length=5), 20):
        assert x.shape == y.shape == (8, 5)
        places = x[:, 0] // 7
        np.testing.assert_array_equal(x, tokens[places[:, None] + np.arange(5)])
        np.testing.assert_array_equal(y, tokens[places[:, None] + np.arange(1, 6)])


def test_every_place_is_as_likely_as_any_other_the_first_and_the_last_too():
    batches = islice(chainrule.random_windows(np.arange(10), batch_size=100, context_length=3, seed=1), 70)
    counts = np.bincount(np.concatenate([x[:, 0] for x, _ in batches]), minlength=10)
    assert counts[7:].sum() == 0  # a window that began there would have no last target
    np.testing.assert_allclose(counts[:7], 1000, atol=4 * np.sqrt(1000 * 6 / 7))


def test_the_seed_decides_and_a_memory_mapped_file_is_read_as_an_array(tmp_path: Path):
    tokens = np.random.default_rng(0).integers(0, 50_000, 500).astype(np.uint16)
    tokens.tofile(tmp_path / "tokens.bin")
    mapped = np.memmap(tmp_path / "tokens.bin", np.uint16, "r")

    def batches(source: np.ndarray, seed: int) -> np.ndarray:
        return np.stack([np.stack(pair) for pair in islice(chainrule.random_windows(source, 4, 16, seed), 5)])

    np.testing.assert_array_equal(batches(tokens, 3), batches(mapped, 3))
    assert (batches(tokens, 3) != batches(tokens, 4)).any()


@pytest.mark.parametrize("tokens", [np.arange(16), np.zeros((4, 40)), []])
def test_too_few_tokens_are_refused_at_once(tokens: np.ndarray):
    with pytest.raises(UserError, match="need an array of at least 17 tokens in one dimension"):
        chainrule.random_windows(tokens, 2, 16)
