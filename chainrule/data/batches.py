"""The batch that each training step reads: windows of a token stream, a pure function of the seed and the step.

The stream of a source is a ring. An epoch cuts it into segments, starting at a random token, and shuffles them; a
segment is one window, or several in a row, which a recurrent model reads one after the other while it keeps its state.
Of several sources each gives its share of the segments, by weight, evenly spread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any, Protocol

import numpy as np

from chainrule.errors import UserError


class Ring:
    """The streams eos d1 eos ... eos of some shards as one endless text: after the last eos comes the first d1."""

    def __init__(self, streams: Sequence[np.ndarray]):
        self._streams = [stream[:-1] for stream in streams]  # the eos that ends one starts the next
        self._starts = np.cumsum([0, *[len(stream) for stream in self._streams]])
        self.size = int(self._starts[-1])
        if self.size < 1:
            raise UserError("there is no text to train on; give more text")

    def take(self, starts: np.ndarray, length: int) -> np.ndarray:
        """`length` tokens from each place on: (len(starts), length) int64."""
        places = (starts[:, None] + np.arange(length)) % self.size
        if len(self._streams) == 1:
            return self._streams[0][places].astype(np.int64)
        found = np.empty(places.shape, np.int64)
        shards = np.searchsorted(self._starts, places, side="right") - 1
        for shard in np.unique(shards):
            chosen = shards == shard
            found[chosen] = self._streams[shard][places[chosen] - self._starts[shard]]
        return found


@dataclass(frozen=True)
class TrainingBatch:
    """inputs and targets (batch, time); `is_fresh` marks rows where a recurrent model starts from its first state.

    `condition` is what the rows are read with, such as the sentences to translate: a nest of batch-first arrays.
    `examples` is how many the batch's loss is the mean over, where that is not the tokens that are asked for.
    """

    inputs: np.ndarray
    targets: np.ndarray
    is_fresh: bool = True
    condition: Any = None
    examples: int | None = None


class Batches(Protocol):
    """What training reads, whatever the task: `batch(step)` is the same however often it is asked for.

    Batches may differ in their number of rows and in their length.
    """

    @property
    def batch_size(self) -> int:
        """The largest number of rows in a batch."""

    @property
    def length(self) -> int:
        """The largest number of tokens in a row."""

    @property
    def tokens_per_step(self) -> float:
        """The average number of tokens in a batch."""

    @property
    def tokens_per_epoch(self) -> int: ...

    def batch(self, step: int) -> TrainingBatch: ...

    def epochs(self, steps: int) -> list[float]:
        """How many epochs of each source have been read after so many steps."""


class StreamBatches:
    """Batches of windows of token streams; `batch(step)` is the same however often it is asked for."""

    def __init__(
        self,
        rings: Sequence[Ring],
        weights: Sequence[float],
        batch_size: int,
        length: int,
        chain: int = 1,
        seed: int = 0,
        is_fixed: bool = False,
    ):
        """`is_fixed`: windows are the same ones in every epoch, and only their order is new."""
        self.rings, self.seed, self.batch_size = list(rings), seed, batch_size
        largest = max(ring.size for ring in rings)  # a small source goes round its ring; it shortens nobody's windows
        self.length = min(length, largest)
        self.chain = max(1, min(chain, largest // self.length))
        self._shares = _nested_shares(weights)
        self._is_fixed = is_fixed

    @property
    def tokens_per_step(self) -> int:
        return self.batch_size * self.length

    @property
    def tokens_per_epoch(self) -> int:
        return sum(ring.size for ring in self.rings)

    def batch(self, step: int) -> TrainingBatch:
        link, turn = step % self.chain, step // self.chain
        tokens = np.empty((self.batch_size, self.length + 1), np.int64)
        for source, rows, numbers in self._segments(turn):
            starts = self._places(source, numbers) + link * self.length
            tokens[rows] = self.rings[source].take(starts, self.length + 1)
        return TrainingBatch(tokens[:, :-1], tokens[:, 1:], link == 0)

    def epochs(self, steps: int) -> list[float]:
        """How many epochs of each source have been read after so many steps."""
        turns, links = divmod(steps, self.chain)
        before, after = self._given(np.array([turns, turns + 1]) * self.batch_size)
        windows = before * self.chain + (after - before) * links
        return [float(n) * self.length / ring.size for n, ring in zip(windows, self.rings, strict=True)]

    def _segments(self, turn: int) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """(source, rows of the batch, numbers of their segments among all that source gives)."""
        given = self._given(turn * self.batch_size + np.arange(self.batch_size + 1))
        found = []
        for source, numbers in enumerate(given.T):
            rows = np.flatnonzero(np.diff(numbers))
            if len(rows):
                found.append((source, rows, numbers[rows]))
        return found

    def _given(self, segments: np.ndarray) -> np.ndarray:
        """Of the first so many segments, how many each source has given: (len(segments), sources).

        The largest source takes its share, rounded, the next one its share of what that leaves, and so on: whatever
        the number of segments, no source is as much as one away from its weight.
        """
        given = np.empty((len(segments), len(self.rings)), np.int64)
        left = segments
        for source, share in self._shares:
            given[:, source] = np.floor(left * share + 0.5)
            left = left - given[:, source]
        return given

    def _places(self, source: int, numbers: np.ndarray) -> np.ndarray:
        """The position in the ring at which each segment starts."""
        size, length = self.rings[source].size, self.length * self.chain
        per_epoch = ceil(size / length)
        places = np.empty(len(numbers), np.int64)
        for epoch in np.unique(numbers // per_epoch):
            chosen = numbers // per_epoch == epoch
            offset, order = _shuffle(self.seed, source, int(epoch), per_epoch, length)
            places[chosen] = (0 if self._is_fixed else offset) + order[numbers[chosen] % per_epoch] * length
        return places


def _nested_shares(weights: Sequence[float]) -> list[tuple[int, float]]:
    """(source, its share of what the sources before it leave), the largest first."""
    order = sorted(range(len(weights)), key=lambda source: -weights[source])
    return [(source, weights[source] / sum(weights[each] for each in order[at:])) for at, source in enumerate(order)]


@lru_cache(maxsize=32)
def _shuffle(seed: int, source: int, epoch: int, count: int, length: int) -> tuple[int, np.ndarray]:
    """The token at which an epoch's first segment starts, and the order of its segments."""
    generator = np.random.Generator(np.random.Philox(key=[seed, source << 32 | epoch]))
    return int(generator.integers(length)), generator.permutation(count)
