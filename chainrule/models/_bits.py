"""Predictions of bytes as decisions between 0 and 1, so that models can be mixed bit by bit.

The 257 symbols, bytes and the end of a document, are the leaves of a binary tree: the 8 bits of a byte, the most
significant first; the end shares the leaf of byte 255, and a ninth decision tells the two apart.
"""

from typing import Protocol, runtime_checkable

import numpy as np

from chainrule.models._numpy import step, to_numpy
from chainrule.models.contract import LanguageModel, log_softmax

END = 255
SMALLEST = 1e-6  # probability of either side of a decision
SCORED_AT_ONCE = 2048
BYTES = 257  # the vocabulary of the tokenizer 'bytes'
SHIFTS = np.arange(7, -1, -1, dtype=np.uint8)


@runtime_checkable
class PredictsBits(Protocol):
    """A model that is faster at predicting the bits of a stream than whole distributions."""

    def bit_probabilities(self, stream: np.ndarray) -> np.ndarray:
        """P(1) at each decision of every symbol after the first of a stream, (symbols, 9)."""


def to_bytes(ids: np.ndarray, eos: int) -> np.ndarray:
    """Ids as bytes, with END for the end of a document."""
    return np.where(np.asarray(ids) == eos, END, ids).astype(np.uint8)


def bits_of(symbols: np.ndarray) -> np.ndarray:
    """(symbols,) -> (symbols, 8)"""
    found: np.ndarray = (symbols[:, None] >> SHIFTS) & 1
    return found


def score_bits(bits: np.ndarray, stream: np.ndarray, eos: int) -> np.ndarray:
    """log p of every symbol after the first of a stream, from P(1) at each of its decisions (symbols, 9)."""
    symbols, is_end = to_bytes(stream, eos)[1:], np.asarray(stream)[1:] == eos
    chances = np.where(bits_of(symbols) == 1, bits[:, :8], 1 - bits[:, :8]).astype(np.float64)
    last = np.where(is_end, bits[:, 8], np.where(symbols == END, 1 - bits[:, 8], 1.0)).astype(np.float64)
    with np.errstate(divide="ignore"):
        found: np.ndarray = (np.log(chances).sum(1) + np.log(last)).astype(np.float32)
    return found


def predict_bits(model: LanguageModel, stream: np.ndarray) -> np.ndarray:
    """P(1) at each decision of every symbol after the first of a stream, (symbols, 9), by any model of bytes."""
    if isinstance(model, PredictsBits):
        return model.bit_probabilities(stream)
    found = np.empty((max(len(stream) - 1, 0), 9), np.float32)
    if model.context_length is None:
        _predict_on(model, np.asarray(stream, np.int64), found)
    else:
        _predict_windows(model, np.asarray(stream, np.int64), found, model.context_length)
    return found


def _predict_on(model: LanguageModel, ids: np.ndarray, found: np.ndarray) -> None:
    """One state reads the whole stream, a piece at a time."""
    state = model.start(1)
    for begin in range(0, len(found), SCORED_AT_ONCE):
        piece = ids[begin : begin + SCORED_AT_ONCE + 1]
        logits, state = step(model, piece[None, :-1], state)
        found[begin : begin + len(piece) - 1] = _along(to_numpy(logits)[0], piece[1:], model.eos)


def _predict_windows(model: LanguageModel, ids: np.ndarray, found: np.ndarray, context: int) -> None:
    """Overlapping windows: the first counts whole, of each later one what is new in it."""
    stride = max(context // 2, 1)
    first = min(context, len(found))
    logits, _ = step(model, ids[None, :first], model.start(1))
    found[:first] = _along(to_numpy(logits)[0], ids[1 : first + 1], model.eos)
    ends = [*range(first + stride, len(found), stride), len(found)] if first < len(found) else []
    for begin in range(0, len(ends), max(SCORED_AT_ONCE // context, 1)):
        group = np.array(ends[begin : begin + max(SCORED_AT_ONCE // context, 1)])
        windows = ids[group[:, None] + np.arange(-context, 1)]  # (windows, context + 1)
        logits, _ = step(model, windows[:, :-1], model.start(len(windows)))
        for end, window, of_window in zip(group, windows, to_numpy(logits), strict=True):
            found[end - stride : end] = _along(of_window[-stride:], window[-stride:], model.eos)


def _along(logits: np.ndarray, following: np.ndarray, eos: int) -> np.ndarray:
    """P(1) at each decision on the way to the symbols that follow, (symbols, 9), from logits (symbols, vocabulary)."""
    nodes, last = decisions(log_softmax(logits), eos)
    path = (to_bytes(following, eos).astype(np.int64)[:, None] | 256) >> np.arange(8, 0, -1)
    return np.concatenate([np.take_along_axis(nodes, path, 1), last[:, None]], 1)


def decisions(log_p: np.ndarray, eos: int) -> tuple[np.ndarray, np.ndarray]:
    """P(1) at the 255 nodes above the bytes (..., 256; node 0 is none), and at the ninth decision (...), from log p
    (..., vocabulary)."""
    p = np.exp(log_p.astype(np.float64))
    mass = np.zeros((*p.shape[:-1], 512))
    size = min(p.shape[-1], 256)
    mass[..., 256 : 256 + size] = p[..., :size]
    if eos < 256:
        mass[..., 256 + eos] = 0
    byte = mass[..., 256 + END].copy()
    mass[..., 256 + END] += p[..., eos]
    for level in (128, 64, 32, 16, 8, 4, 2, 1):
        pairs = mass[..., 2 * level : 4 * level].reshape(*p.shape[:-1], level, 2)
        mass[..., level : 2 * level] = pairs.sum(-1)
    above = np.maximum(mass[..., :256], 1e-300)
    ones = np.clip(mass[..., 1::2] / above, SMALLEST, 1 - SMALLEST)
    last = np.clip(1 - byte / np.maximum(mass[..., 256 + END], 1e-300), SMALLEST, 1 - SMALLEST)
    return ones, last


def leaves(ones: np.ndarray, last: np.ndarray, vocabulary_size: int, eos: int) -> np.ndarray:
    """log p (..., vocabulary) from P(1) at the nodes (..., 256) and at the ninth decision (...)."""
    log_mass = np.zeros((*ones.shape[:-1], 512))
    yes, no = np.log(ones), np.log1p(-ones)
    for level in (1, 2, 4, 8, 16, 32, 64, 128):
        above = log_mass[..., level : 2 * level]
        log_mass[..., 2 * level : 4 * level : 2] = above + no[..., level : 2 * level]
        log_mass[..., 2 * level + 1 : 4 * level : 2] = above + yes[..., level : 2 * level]
    found = np.full((*ones.shape[:-1], vocabulary_size), -np.inf)
    found[..., :256] = log_mass[..., 256:]
    found[..., eos] = log_mass[..., 256 + END] + np.log(last)
    found[..., END] += np.log1p(-last)
    return found
