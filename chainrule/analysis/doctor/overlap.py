"""Finds passages of one text that occur word for word in another, by a hash of every window of tokens.

The hash of 2k tokens is computed from those of its two halves, so windows of n tokens take log₂ n passes over the text.
"""

from dataclasses import dataclass

import numpy as np

MIX = np.uint64(0x9E3779B97F4A7C15)  # an odd constant near 2^64 / golden ratio


@dataclass(frozen=True)
class Overlap:
    """How much of a text another one has too."""

    share: float  # of tokens in windows that both texts have
    start: int  # of the longest run of such tokens
    length: int


def window_hashes(stream: np.ndarray, length: int) -> np.ndarray:
    """A hash of 64 bits for each window of `length` tokens, in order."""
    hashes = (stream.astype(np.uint64) + np.uint64(1)) * MIX
    half = 1
    while 2 * half <= length:
        hashes = _join(hashes[:-half], hashes[half:])
        half *= 2
    rest = length - half  # a window is made of two overlapping ones of `half` tokens
    return _join(hashes[:-rest], hashes[rest:]) if rest else hashes


def _join(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    mixed = (first ^ (first >> np.uint64(29))) * MIX + second  # overflows at 64 bits, alike on every machine
    joined: np.ndarray = mixed ^ (mixed >> np.uint64(32))
    return joined


def find_overlap(text: np.ndarray, other: np.ndarray, length: int) -> Overlap:
    """Which part of `text` lies in windows of `length` tokens that `other` has too."""
    if min(len(text), len(other)) < length:
        return Overlap(0.0, 0, 0)
    is_shared = np.isin(window_hashes(text, length), window_hashes(other, length))
    edges = np.zeros(len(text) + 1, np.int64)
    edges[: len(is_shared)] += is_shared
    edges[length:] -= is_shared
    is_covered = np.cumsum(edges[:-1]) > 0
    changes = np.flatnonzero(np.diff(np.concatenate([[False], is_covered, [False]]).astype(np.int8)))
    begins, ends = changes[::2], changes[1::2]
    if not len(begins):
        return Overlap(0.0, 0, 0)
    longest = int((ends - begins).argmax())
    return Overlap(float(is_covered.mean()), int(begins[longest]), int((ends - begins)[longest]))
