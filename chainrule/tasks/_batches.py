"""Batches of pairs: as many as fit into so many tokens, of about the same length, in a new order every epoch.

Pairs are sorted by the tokens of both sides and cut into batches; those of equal length change places from epoch to
epoch, and so does the order of the batches. What a step reads is a pure function of the seed and the step.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from chainrule.data.windows import Window
from chainrule.errors import UserError
from chainrule.models.base import IGNORE


class PairBatches:
    """`sources` and `targets` are token ids without eos; a batch holds at most `tokens` on either side, on average."""

    def __init__(self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], eos: int, tokens: int, seed: int):
        self._sources, self._targets, self._eos, self._seed = sources, targets, eos, seed
        self._sizes = np.array([len(s) + len(t) + 2 for s, t in zip(sources, targets, strict=True)])
        if not len(self._sizes):
            raise UserError("there is no pair to train on; give more pairs")
        self.tokens_per_epoch = int(sum(len(each) + 1 for each in targets))
        self.length = max(len(each) + 1 for each in targets)
        self._cuts = _cuts(np.sort(self._sizes), 2 * tokens)
        self.batch_size = int(np.diff(self._cuts).max())

    @property
    def per_epoch(self) -> int:
        return len(self._cuts) - 1

    @property
    def tokens_per_step(self) -> float:
        return self.tokens_per_epoch / self.per_epoch

    def epochs(self, steps: int) -> list[float]:
        return [steps / self.per_epoch]

    def window(self, step: int) -> Window:
        epoch, turn = divmod(step, self.per_epoch)
        order, batches = _shuffle(self._seed, epoch, self.per_epoch, self._sizes.tobytes())
        batch = batches[turn]
        rows = order[self._cuts[batch] : self._cuts[batch + 1]]
        return window_of([self._sources[row] for row in rows], [self._targets[row] for row in rows], self._eos)


def _cuts(sizes: np.ndarray, most: int) -> np.ndarray:
    """Where batches begin and end among pairs sorted by size, so that rows times the largest size is at most that."""
    cuts, first = [0], 0
    for place, size in enumerate(sizes.tolist()):
        if place > first and (place - first + 1) * size > most:
            cuts.append(place)
            first = place
    return np.array([*cuts, len(sizes)])


@lru_cache(maxsize=4)
def _shuffle(seed: int, epoch: int, batches: int, sizes: bytes) -> tuple[np.ndarray, np.ndarray]:
    """The pairs by size, those of one size in random order, and the order of the batches."""
    generator = np.random.Generator(np.random.Philox(key=[seed, epoch]))
    lengths = np.frombuffer(sizes, np.int64)
    shuffled = generator.permutation(len(lengths))
    return shuffled[np.argsort(lengths[shuffled], kind="stable")], generator.permutation(batches)


def window_of(sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], eos: int) -> Window:
    """Targets are read from eos on and end with it; shorter rows are padded, and their padding is asked for nothing."""
    length = max(len(each) for each in targets) + 1
    inputs, wanted = np.full((len(targets), length), eos), np.full((len(targets), length), IGNORE)
    for row, target in enumerate(targets):
        inputs[row, 1 : len(target) + 1] = target
        wanted[row, : len(target)] = target
        wanted[row, len(target)] = eos
    return Window(inputs, wanted, condition=condition_of(sources, eos))


def condition_of(sources: Sequence[np.ndarray], eos: int) -> dict[str, Any]:
    """Sources, each ended by eos, as one padded array."""
    lengths = np.array([len(each) + 1 for each in sources])
    padded = np.full((len(sources), lengths.max()), eos)
    for row, source in enumerate(sources):
        padded[row, : len(source)] = source
    return {"source": padded, "lengths": lengths}
