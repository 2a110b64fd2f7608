"""Batches in the way that most training scripts take them: windows that begin anywhere in an array of tokens.

Chainrule's own training reads every token once an epoch (batches.py); here places are drawn with replacement.
"""

from collections.abc import Iterator

import numpy as np

from chainrule.checks import require_whole
from chainrule.errors import UserError


def random_windows(
    tokens: np.ndarray, batch_size: int, context_length: int, seed: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches (x, y) without end: x are windows that begin at random places, and y the same a token further on.

    Both are int64 (batch_size, context_length). `tokens` is one array, in memory or memory-mapped.
    """
    require_whole("batch_size", batch_size, 1)
    require_whole("context_length", context_length, 1)
    require_whole("seed", seed, 0)
    if np.ndim(tokens) != 1 or len(tokens) <= context_length:
        raise UserError(
            f"windows of {context_length} tokens and the next ones need an array of at least {context_length + 1} "
            f"tokens in one dimension, got the shape {np.shape(tokens)}"
        )
    return _draw(tokens, batch_size, context_length, np.random.default_rng(seed))


def _draw(
    tokens: np.ndarray, batch_size: int, context_length: int, generator: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    while True:
        starts = generator.integers(0, len(tokens) - context_length, batch_size)
        windows = np.asarray(tokens)[starts[:, None] + np.arange(context_length + 1)].astype(np.int64)
        yield windows[:, :-1], windows[:, 1:]
