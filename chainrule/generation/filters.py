"""Filters that reshape a next-token distribution, on logits of shape (batch, vocabulary).

Every function is pure and returns logits in which a token that was filtered out is -inf. The order they are
used in, as in Hugging Face: repetition penalty, temperature, top-k, top-p, min-p, typical-p.
"""

from math import log

import numpy as np

BLOCK = 128  # tokens per block maximum, in finding the n-th largest logit
GUESSES = 256, 4096  # how many of the largest logits are tried as a nucleus before all are sorted
ROUNDING = 1e-12  # so that a nucleus of .5 + .3 reaches p = .8, which float64 misses by one part in 10^16


def repetition_penalty(logits: np.ndarray, seen: np.ndarray, penalty: float) -> np.ndarray:
    """Make `seen` tokens, (batch, vocabulary) of booleans, less likely: CTRL, Keskar et al. 2019.

    A positive logit is divided by the penalty and a negative one multiplied, as Hugging Face does.
    """
    if penalty == 1:
        return logits
    where = np.flatnonzero(seen)
    penalized = logits.flatten()
    found = penalized[where]
    penalized[where] = np.where(found > 0, found / penalty, found * penalty)
    return penalized.reshape(logits.shape)


def temperature(logits: np.ndarray, value: float) -> np.ndarray:
    """Sharpen (below 1) or flatten (above 1); 0 leaves only the most likely token, the first one on a tie."""
    if value == 1:
        return logits
    if value == 0:
        return _keep(logits, _is_first_largest(logits))
    value = min(max(value, 1e-30), 1e30)  # in float32, 1e-46 would be zero
    # Numbers of at most zero can only overflow to -inf, never to NaN.
    with np.errstate(over="ignore"):
        scaled: np.ndarray = (logits - logits.max(-1, keepdims=True)) / value
    return scaled


def top_k(logits: np.ndarray, count: int) -> np.ndarray:
    """Keep exactly the `count` most likely tokens (0 keeps all); of equal ones, those that come first."""
    if count == 0 or count >= logits.shape[-1]:
        return logits
    return _keep(logits, _is_largest(logits, _nth_largest(logits, count), count))


def top_p(logits: np.ndarray, mass: float) -> np.ndarray:
    """Keep the nucleus, the smallest set of tokens with probability `mass` or more: Holtzman et al. 2020."""
    if mass >= 1:
        return logits
    ordered, reached, goal = _nucleus(logits, mass)
    counts = np.minimum((reached < goal).sum(-1, keepdims=True) + 1, ordered.shape[-1])  # (batch, 1)
    return _keep(logits, _is_largest(logits, np.take_along_axis(ordered, counts - 1, -1), counts))


def min_p(logits: np.ndarray, ratio: float) -> np.ndarray:
    """Keep tokens at least `ratio` times as likely as the likeliest: Nguyen et al. 2024."""
    if ratio == 0:
        return logits
    return _keep(logits, logits >= logits.max(-1, keepdims=True) + log(ratio))


def typical_p(logits: np.ndarray, mass: float) -> np.ndarray:
    """Keep the tokens whose surprise is nearest to the entropy, so many that they have `mass`: Meister et al. 2022.

    Tokens as near as the last one that is kept are kept, too, as Hugging Face does.
    """
    if mass >= 1:
        return logits
    shifted = logits - logits.max(-1, keepdims=True)
    weights = np.exp(shifted, dtype=np.float64)
    total = weights.sum(-1, keepdims=True)
    probabilities = weights / total
    surprise = np.log(total) - shifted
    entropy = (probabilities * np.where(weights > 0, surprise, 0.0)).sum(-1, keepdims=True)
    distance = np.abs(surprise - entropy)
    order = np.argsort(distance, axis=-1, kind="stable")
    reached = np.take_along_axis(probabilities, order, -1).cumsum(-1)
    last = np.minimum((reached < mass).sum(-1, keepdims=True), logits.shape[-1] - 1)  # (batch, 1)
    farthest = np.take_along_axis(distance, np.take_along_axis(order, last, -1), -1)
    return _keep(logits, distance <= farthest)


def largest(logits: np.ndarray, count: int) -> np.ndarray:
    """The ids of the `count` largest logits of each row, in increasing order of id: (batch, count)."""
    rows, width = logits.shape
    if count >= width:
        return np.broadcast_to(np.arange(width), logits.shape)
    kept = _is_largest(logits, _nth_largest(logits, count), count)
    ids: np.ndarray = np.flatnonzero(kept) % width
    return ids.reshape(rows, count)


def _nucleus(logits: np.ndarray, mass: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Enough of the largest logits to hold the nucleus, their cumulative sums, and the sum to reach."""
    top = logits.max(-1, keepdims=True)
    total = np.exp(logits - top, dtype=np.float64).sum(-1, keepdims=True)
    goal = mass * total * (1 - ROUNDING)
    for guess in (*GUESSES, logits.shape[-1]):
        ordered = _descending(logits, guess)
        reached = np.exp(ordered - top, dtype=np.float64).cumsum(-1)  # (batch, guess)
        if (reached[:, -1:] >= goal).all():
            break
    return ordered, reached, goal


def _nth_largest(logits: np.ndarray, count: int) -> np.ndarray:
    """(batch, 1). The n-th largest of the block maxima is a lower bound, so few values have to be partitioned."""
    rows, width = logits.shape
    blocks = width // BLOCK
    if count > blocks:
        return _nth_of(logits, count)
    maxima = logits[:, : blocks * BLOCK].reshape(rows, blocks, BLOCK).max(-1)
    bound = _nth_of(maxima, count)
    few = [row[row >= least] for row, least in zip(logits, bound, strict=True)]
    return np.array([_nth_of(row[None], count)[0] for row in few], logits.dtype)


def _nth_of(values: np.ndarray, count: int) -> np.ndarray:
    place = values.shape[-1] - count
    return np.partition(values, place, axis=-1)[:, place, None]


def _descending(logits: np.ndarray, count: int) -> np.ndarray:
    """The `count` largest values of each row, largest first: (batch, count)."""
    width = logits.shape[-1]
    if count < width:
        logits = np.partition(logits, width - count, axis=-1)[:, width - count :]
    return np.sort(logits, axis=-1)[:, ::-1]


def _is_largest(logits: np.ndarray, smallest: np.ndarray, counts: np.ndarray | int) -> np.ndarray:
    """Where the `counts` largest are, given the smallest of them; of values equal to it, the first ones."""
    kept = logits >= smallest
    surplus = kept.sum(-1, keepdims=True) - counts
    if surplus.any():
        tied = logits == smallest
        kept &= ~tied | (tied.cumsum(-1) <= tied.sum(-1, keepdims=True) - surplus)
    return kept


def _is_first_largest(logits: np.ndarray) -> np.ndarray:
    is_first: np.ndarray = np.arange(logits.shape[-1]) == logits.argmax(-1)[:, None]
    return is_first


def _keep(logits: np.ndarray, kept: np.ndarray) -> np.ndarray:
    return np.where(kept, logits, logits.dtype.type(-np.inf))
