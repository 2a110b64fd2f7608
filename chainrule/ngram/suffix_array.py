"""All suffixes of a token stream in order (Manber and Myers, 1990), and the longest context that occurs in it.

A suffix ends with its document. Windows of a few words are sorted first; then their length doubles until the order no
longer changes, each round sorting by the rank of the first half and of the second.
"""

import numpy as np

from chainrule.kernels.jit import inlined, kernel
from chainrule.ngram.count import sort_windows

FIRST_WORDS = 4


@kernel
def _window_ranks(ids, order, words, eos, ranks):
    """Number the windows 1, 2, ... in sorted order, equal ones alike; returns how many different ones there are."""
    rank = 0
    for i in range(len(order)):
        position = np.int64(order[i])
        is_new = i == 0
        if not is_new:
            other = np.int64(order[i - 1])
            for k in range(words):
                if ids[position + k] != ids[other + k]:
                    is_new = True
                    break
                if (k > 0 and ids[position + k] == eos) or position + k + 1 >= len(ids) or other + k + 1 >= len(ids):
                    break
        rank += is_new
        ranks[position] = rank
    return rank


@kernel
def _second_ranks(ids, ranks, words, eos, second):
    """The rank of the window that follows each window's first `words` words, or 0 where the document has ended."""
    end_rank = ranks[
        0
    ]  # an eos that ends a document is followed by nothing: all of them rank as the first of their kind
    for position in range(len(ranks)):
        if ids[position] == eos:
            end_rank = min(end_rank, ranks[position])
    ends = len(ids) - 1  # where the document ends that the window is in, going backwards
    for position in range(len(ranks) - 1, -1, -1):
        if ids[position + 1] == eos:
            ends = position + 1
        follows = position + words
        if follows < ends:
            second[position] = ranks[follows]
        else:
            second[position] = end_rank if follows == ends else 0


@kernel
def _sort_by(keys, order, counts, target):
    """Stable counting sort of `order` by keys[order[i]] (keys from 0 to len(counts) - 1)."""
    counts[:] = 0
    for key in keys:
        counts[key] += 1
    total = 0
    for key in range(len(counts)):
        size = counts[key]
        counts[key] = total
        total += size
    for i in range(len(order)):
        key = keys[order[i]]
        target[counts[key]] = order[i]
        counts[key] += 1


@kernel
def _merge_ranks(order, ranks, second, updated):
    rank = 0
    for i in range(len(order)):
        position = order[i]
        if i == 0 or ranks[position] != ranks[order[i - 1]] or second[position] != second[order[i - 1]]:
            rank += 1
        updated[position] = rank
    return rank


def build_suffix_array(ids: np.ndarray, vocabulary_size: int, eos: int) -> np.ndarray:
    """Positions of the stream (but its last) in the order of the text from there to the end of the document."""
    order = sort_windows(ids, FIRST_WORDS, vocabulary_size, eos)
    ranks, second, updated = (np.zeros(len(order), np.uint32) for _ in range(3))
    different = _window_ranks(ids, order, FIRST_WORDS, eos, ranks)
    target = np.empty_like(order)
    words = FIRST_WORDS
    while True:
        counts = np.empty(different + 1, np.int64)
        _second_ranks(ids, ranks, words, eos, second)
        _sort_by(second, order, counts, target)
        _sort_by(ranks, target, counts, order)
        found = _merge_ranks(order, ranks, second, updated)
        ranks, updated = updated, ranks
        words *= 2
        if found == different:
            return order
        different = found


@kernel
def _compare(ids, position, words):
    """Whether the text at `position` comes before (-1), starts with (0) or comes after (1) these words."""
    for k in range(len(words)):
        if position + k >= len(ids):
            return -1
        found = np.int64(ids[position + k])
        if found != words[k]:
            return -1 if found < words[k] else 1
    return 0


@kernel
def find_range(ids, suffixes, words):
    """The suffixes that start with these words: [first, last) of the suffix array."""
    first, high = 0, len(suffixes)
    while first < high:
        middle = (first + high) >> 1
        if _compare(ids, np.int64(suffixes[middle]), words) < 0:
            first = middle + 1
        else:
            high = middle
    last, high = first, len(suffixes)
    while last < high:
        middle = (last + high) >> 1
        if _compare(ids, np.int64(suffixes[middle]), words) <= 0:
            last = middle + 1
        else:
            high = middle
    return first, last


@kernel
def find_longest(ids, suffixes, words, eos):
    """The longest end of `words`, back to the document's start, that occurs: (length, first, last)."""
    most = 0
    while most < len(words):
        word = words[len(words) - 1 - most]
        if word < 0:
            break
        most += 1
        if word == eos:
            break
    low, first, last = 0, 0, len(suffixes)
    while low < most:  # an end of something that occurs occurs too, so the length can be searched by halving
        middle = (low + most + 1) >> 1
        a, b = find_range(ids, suffixes, words[len(words) - middle :])
        if a < b:
            low, first, last = middle, a, b
        else:
            most = middle - 1
    return low, first, last


@inlined
def word_after(ids, suffixes, i, length):
    """The word that follows the first `length` of suffix i (kept inside the text, should a file be damaged)."""
    return ids[min(np.int64(suffixes[i]) + length, len(ids) - 1)]


@kernel
def count_next(ids, suffixes, length, first, last, out):
    """How often each word follows: next words are sorted within the range, so jump from one to the next."""
    i = first
    while i < last:
        word = word_after(ids, suffixes, i, length)
        low, high = i + 1, last
        while low < high:
            middle = (low + high) >> 1
            if word_after(ids, suffixes, middle, length) <= word:
                low = middle + 1
            else:
                high = middle
        out[word] += low - i
        i = low
