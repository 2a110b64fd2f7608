"""Bucketing: batches of rows of similar length, so that little of them is padding; a pure function of the step.

Rows are sorted by length and cut into batches of at most so many tokens, padding included. Every epoch shuffles the
rows of equal length, and the batches.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np


class Buckets:
    def __init__(self, lengths: np.ndarray, tokens: int, seed: int = 0):
        self.lengths, self.seed = lengths, seed
        self.sizes = cut(np.sort(lengths), tokens)  # rows of each batch, from the shortest to the longest

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self.sizes)

    def rows(self, step: int) -> np.ndarray:
        """The rows that this step reads."""
        epoch, at = divmod(step, len(self))
        batches, order = _shuffle(self, epoch)
        rows: np.ndarray = batches[order[at]]
        return rows


@lru_cache(maxsize=4)
def _shuffle(buckets: Buckets, epoch: int) -> tuple[list[np.ndarray], np.ndarray]:
    """The batches of an epoch, and their order."""
    generator = np.random.Generator(np.random.Philox(key=[buckets.seed, epoch]))
    shuffled = generator.permutation(len(buckets.lengths))
    rows = shuffled[np.argsort(buckets.lengths[shuffled], kind="stable")]
    batches = np.split(rows, np.cumsum(buckets.sizes)[:-1])
    return batches, generator.permutation(len(batches))


def cut(lengths: np.ndarray, tokens: int, most: int | None = None) -> list[int]:
    """How many rows go into each batch, of lengths that rise: as many as fit if all are padded to the longest, and no
    more than `most`."""
    sizes = [0]
    for length in lengths.tolist():
        if sizes[-1] and ((sizes[-1] + 1) * length > tokens or sizes[-1] == most):
            sizes.append(0)
        sizes[-1] += 1
    return sizes


def group_by_size(sizes: Sequence[int], tokens: int, most: int | None = None) -> list[list[int]]:
    """Which rows are read together, each once, the short ones first."""
    if not len(sizes):
        return []
    order = np.argsort(sizes, kind="stable")
    counts = cut(np.asarray(sizes)[order], tokens, most)
    return [rows.tolist() for rows in np.split(order, np.cumsum(counts)[:-1])]
