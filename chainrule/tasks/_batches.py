"""Batches of pairs: as many as fit into so many tokens, of about the same length, in a new order every epoch."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.data.batches import TrainingBatch
from chainrule.data.buckets import Buckets
from chainrule.errors import UserError
from chainrule.models.contract import IGNORE

Ends = tuple[int, int]  # the eos of the source's vocabulary and of the target's


class PairBatches:
    """`sources` and `targets` are token ids without the eos that `ends` has of each; a batch holds at most `tokens` on
    either side, on average."""

    def __init__(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], ends: Ends, tokens: int, seed: int
    ):
        if not len(sources):
            raise UserError("there is no pair to train on; give more pairs")
        self._sources, self._targets, self._ends = sources, targets, ends
        sizes = np.array([len(s) + len(t) + 2 for s, t in zip(sources, targets, strict=True)])
        self._buckets = Buckets(sizes, 2 * tokens, seed)
        self.batch_size = max(self._buckets.sizes)
        self.tokens_per_epoch = int(sum(len(each) + 1 for each in targets))
        self.length = max(len(each) + 1 for each in targets)

    @property
    def per_epoch(self) -> int:
        return len(self._buckets)

    @property
    def tokens_per_step(self) -> float:
        return self.tokens_per_epoch / self.per_epoch

    def epochs(self, steps: int) -> list[float]:
        return [steps / self.per_epoch]

    def batch(self, step: int) -> TrainingBatch:
        rows = self._buckets.rows(step)
        return training_batch([self._sources[row] for row in rows], [self._targets[row] for row in rows], self._ends)


def training_batch(sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], ends: Ends) -> TrainingBatch:
    """Targets are read from eos on and end with it; shorter rows are padded, and their padding is asked for nothing."""
    source_eos, eos = ends
    length = max(len(each) for each in targets) + 1
    inputs, wanted = np.full((len(targets), length), eos), np.full((len(targets), length), IGNORE)
    for row, target in enumerate(targets):
        inputs[row, 1 : len(target) + 1] = target
        wanted[row, : len(target)] = target
        wanted[row, len(target)] = eos
    return TrainingBatch(inputs, wanted, condition=condition_of(sources, source_eos))


def condition_of(sources: Sequence[np.ndarray], eos: int) -> dict[str, Any]:
    """Sources, each ended by eos, as one padded array."""
    lengths = np.array([len(each) + 1 for each in sources])
    padded = np.full((len(sources), lengths.max()), eos)
    for row, source in enumerate(sources):
        padded[row, : len(source)] = source
    return {"source": padded, "lengths": lengths}
