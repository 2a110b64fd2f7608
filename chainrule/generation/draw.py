"""Drawing one token per row: apply the filters in order, then invert the cumulative distribution at a uniform number.

A draw is a pure function of the logits and a number in [0, 1), so the same number can be used with several models.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from chainrule.generation import filters

BLOCK = 256  # cumulative sums over blocks and then inside one block are ten times faster than over 20,000 tokens


class Filters(Protocol):
    """The settings that reshape a distribution before a draw; `Sampling` has them all."""

    @property
    def temperature(self) -> float: ...
    @property
    def top_k(self) -> int: ...
    @property
    def top_p(self) -> float: ...
    @property
    def min_p(self) -> float: ...
    @property
    def typical_p(self) -> float: ...


@dataclass(frozen=True)
class Draw:
    """The token id drawn for each row, and the logsumexp of its unfiltered logits: (batch,) each."""

    ids: np.ndarray
    log_normalizer: np.ndarray


def draw(logits: np.ndarray, settings: Filters, uniforms: np.ndarray, processed: np.ndarray | None = None) -> Draw:
    """Draw from the filtered distribution, normalize the unfiltered one; without filters they share exponentials.

    `processed` are the logits to filter and draw from, where they are not the model's own.
    """
    top = logits.max(-1, keepdims=True)
    weights = _weights(logits, top)
    sums = _block_sums(weights)
    ids, kept = candidates(logits if processed is None else processed, settings)
    if kept is logits:
        drawn = _invert(weights, sums, uniforms)
    elif ids is None:
        drawn = invert_cdf(kept, uniforms)
    else:
        drawn = ids[:, 0] if ids.shape[1] == 1 else ids[np.arange(len(ids)), invert_cdf(kept, uniforms)]
    return Draw(drawn, top[:, 0] + np.log(sums.sum(-1)))


def draw_ids(logits: np.ndarray, settings: Filters, uniforms: np.ndarray) -> np.ndarray:
    """The token id drawn for each row by its own uniform number: (batch,)."""
    return draw(logits, settings, uniforms).ids


def probabilities(logits: np.ndarray, settings: Filters) -> np.ndarray:
    """The filtered distribution that `draw` draws from: (batch, vocabulary)."""
    ids, kept = candidates(logits, settings)
    weights: np.ndarray = np.exp(kept - kept.max(-1, keepdims=True), dtype=np.float64)
    weights /= weights.sum(-1, keepdims=True)
    if ids is None:
        return weights
    spread = np.zeros(logits.shape)
    np.put_along_axis(spread, ids, weights, -1)
    return spread


def cumulative_distribution(logits: np.ndarray, settings: Filters) -> tuple[np.ndarray, np.ndarray]:
    """The filtered cumulative distribution of one row of logits: the candidate ids, and the cumulative probability
    at which each one ends.

    `draw` returns a token for numbers from the end of the token before it (0 for the first) up to its own end; the
    last token ends at 1.
    """
    ids, kept = candidates(logits[None], settings)
    weights = _weights(kept, kept.max(-1, keepdims=True))
    sums = _block_sums(weights)[0]
    begins = sums.cumsum() - sums  # of each block
    ends = begins[:, None] + weights.reshape(-1, BLOCK).cumsum(-1, dtype=np.float64)
    places: np.ndarray = ends.reshape(-1)[: kept.shape[1]] / sums.sum()
    return np.arange(logits.shape[-1]) if ids is None else ids[0], places


def candidates(logits: np.ndarray, settings: Filters) -> tuple[np.ndarray | None, np.ndarray]:
    """The ids that pass top-k (None: the whole vocabulary) and their filtered logits: (batch, candidates).

    Top-k comes first, so that the filters that need probabilities handle only k tokens.
    """
    if settings.temperature == 0:
        best = logits.argmax(-1)[:, None]
        return best, np.take_along_axis(logits, best, -1)
    logits = filters.temperature(logits, settings.temperature)
    ids = None
    if 0 < settings.top_k < logits.shape[-1]:
        ids = filters.largest(logits, settings.top_k)
        logits = np.take_along_axis(logits, ids, -1)
    logits = filters.min_p(filters.top_p(logits, settings.top_p), settings.min_p)
    return ids, filters.typical_p(logits, settings.typical_p)


def invert_cdf(logits: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """The first index of each row whose cumulative probability exceeds the row's number in [0, 1)."""
    weights = _weights(logits, logits.max(-1, keepdims=True))
    return _invert(weights, _block_sums(weights), uniforms)


def _block_sums(weights: np.ndarray) -> np.ndarray:
    sums: np.ndarray = weights.reshape(len(weights), -1, BLOCK).sum(-1, dtype=np.float64)  # (batch, blocks)
    return sums


def _invert(weights: np.ndarray, sums: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """Find the block in which the cumulative sum passes the row's number, then the token inside that block."""
    blocks = weights.reshape(len(weights), -1, BLOCK)  # (batch, blocks, BLOCK)
    chosen = np.empty(len(weights), np.int64)
    for row, uniform in enumerate(uniforms):
        block, rest = _exceeding(sums[row], uniform * sums[row].sum())
        inside, _ = _exceeding(blocks[row, block], rest)
        chosen[row] = block * BLOCK + inside
    return chosen


def _weights(logits: np.ndarray, top: np.ndarray) -> np.ndarray:
    """exp(logits - top), where `top` is each row's largest logit, padded with zeros to a multiple of BLOCK.

    In float32, where exp is four times as fast; the error of a millionth is far below what sampling can detect.
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
    """The first index whose cumulative sum exceeds `target`, and `target` minus the cumulative sum before that index.

    A weight of zero does not raise the cumulative sum, so it is never the first to exceed anything. A target that
    rounding pushed up to the total is lowered to just below it.
    """
    totals = weights.cumsum(dtype=np.float64)
    target = min(target, np.nextafter(totals[-1], 0))
    index = int(totals.searchsorted(target, side="right"))
    return index, target - (totals[index - 1] if index else 0.0)
