"""One token per row: the filters in their order, then one uniform number looked up in the running total.

A draw is a pure function of logits and a number in [0, 1), so that one roll can be tried on several dice.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from chainrule.generation import filters

BLOCK = 256  # a running total over blocks and then inside one is ten times faster than over 20,000 tokens


class Filters(Protocol):
    """The settings a distribution is reshaped by; `Sampling` has them all."""

    @property
    def temperature(self) -> float: ...
    @property
    def top_k(self) -> int: ...
    @property
    def top_p(self) -> float: ...
    @property
    def min_p(self) -> float: ...
    @property
    def repetition_penalty(self) -> float: ...


@dataclass(frozen=True)
class Roll:
    """What each row chose, and log(sum(exp(logits))) of its unfiltered logits: (batch,) each."""

    chosen: np.ndarray
    log_normalizer: np.ndarray


def roll(logits: np.ndarray, seen: np.ndarray, settings: Filters, uniforms: np.ndarray) -> Roll:
    """Draw with the filters, measure without; where no filter is on, both share their exponentials."""
    top = logits.max(-1, keepdims=True)
    weights = _weights(logits, top)
    sums = _block_sums(weights)
    ids, kept = candidates(logits, seen, settings)
    if kept is logits:
        chosen = _invert(weights, sums, uniforms)
    elif ids is None:
        chosen = choose(kept, uniforms)
    else:
        chosen = ids[:, 0] if ids.shape[1] == 1 else ids[np.arange(len(ids)), choose(kept, uniforms)]
    return Roll(chosen, top[:, 0] + np.log(sums.sum(-1)))


def draw(logits: np.ndarray, seen: np.ndarray, settings: Filters, uniforms: np.ndarray) -> np.ndarray:
    """The id each row chooses, given its own uniform number: (batch,)."""
    return roll(logits, seen, settings, uniforms).chosen


def probabilities(logits: np.ndarray, seen: np.ndarray, settings: Filters) -> np.ndarray:
    """The distribution that `draw` draws from: (batch, vocabulary)."""
    ids, kept = candidates(logits, seen, settings)
    weights: np.ndarray = np.exp(kept - kept.max(-1, keepdims=True), dtype=np.float64)
    weights /= weights.sum(-1, keepdims=True)
    if ids is None:
        return weights
    spread = np.zeros(logits.shape)
    np.put_along_axis(spread, ids, weights, -1)
    return spread


def line(logits: np.ndarray, seen: np.ndarray, settings: Filters) -> tuple[np.ndarray, np.ndarray]:
    """Where `draw` looks its number up, for logits of one row: the ids in play, in order, and where each one ends.

    A token is drawn by the numbers from the end of the one before it up to its own end; the last ends at 1.
    """
    ids, kept = candidates(logits[None], seen[None], settings)
    weights = _weights(kept, kept.max(-1, keepdims=True))
    sums = _block_sums(weights)[0]
    begins = sums.cumsum() - sums  # of each block
    ends = begins[:, None] + weights.reshape(-1, BLOCK).cumsum(-1, dtype=np.float64)
    places: np.ndarray = ends.reshape(-1)[: kept.shape[1]] / sums.sum()
    return np.arange(logits.shape[-1]) if ids is None else ids[0], places


def candidates(logits: np.ndarray, seen: np.ndarray, settings: Filters) -> tuple[np.ndarray | None, np.ndarray]:
    """The ids still in play, None for the whole vocabulary, and their filtered logits: (batch, candidates).

    Top-k comes before the filters that need probabilities, so these only see k tokens.
    """
    logits = filters.repetition_penalty(logits, seen, settings.repetition_penalty)
    if settings.temperature == 0:
        best = logits.argmax(-1)[:, None]
        return best, np.take_along_axis(logits, best, -1)
    logits = filters.temperature(logits, settings.temperature)
    ids = None
    if 0 < settings.top_k < logits.shape[-1]:
        ids = filters.largest(logits, settings.top_k)
        logits = np.take_along_axis(logits, ids, -1)
    return ids, filters.min_p(filters.top_p(logits, settings.top_p), settings.min_p)


def choose(logits: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """Inverse CDF: the first index whose running total of probability exceeds the row's number in [0, 1)."""
    weights = _weights(logits, logits.max(-1, keepdims=True))
    return _invert(weights, _block_sums(weights), uniforms)


def _block_sums(weights: np.ndarray) -> np.ndarray:
    sums: np.ndarray = weights.reshape(len(weights), -1, BLOCK).sum(-1, dtype=np.float64)  # (batch, blocks)
    return sums


def _invert(weights: np.ndarray, sums: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """Find the block in which the running total passes the row's number, then the token inside it."""
    blocks = weights.reshape(len(weights), -1, BLOCK)  # (batch, blocks, BLOCK)
    chosen = np.empty(len(weights), np.int64)
    for row, uniform in enumerate(uniforms):
        block, rest = _exceeding(sums[row], uniform * sums[row].sum())
        inside, _ = _exceeding(blocks[row, block], rest)
        chosen[row] = block * BLOCK + inside
    return chosen


def _weights(logits: np.ndarray, top: np.ndarray) -> np.ndarray:
    """Probabilities up to a factor, the largest 1, padded with zeros to a multiple of BLOCK; `top`: of the logits.

    In float32, where exp is four times as fast: off by a millionth, which no number of samples can tell.
    """
    rows, width = logits.shape
    weights = np.empty((rows, -(-width // BLOCK) * BLOCK), np.float32)
    used = weights[:, :width]
    with np.errstate(over="ignore"):
        np.subtract(logits, top, out=used, casting="same_kind")
    np.exp(used, out=used)
    weights[:, width:] = 0
    return weights


def _exceeding(weights: np.ndarray, target: float) -> tuple[int, float]:
    """The first index whose running total exceeds `target`, and how far `target` is past the one before.

    A weight of zero does not raise the running total, so it is never the first to exceed anything. A target
    that rounding pushed up to the total is taken back under it.
    """
    totals = weights.cumsum(dtype=np.float64)
    target = min(target, np.nextafter(totals[-1], 0))
    index = int(totals.searchsorted(target, side="right"))
    return index, target - (totals[index - 1] if index else 0.0)
