"""Counting all n-grams of a token stream: sort the windows that start at every token, then read off the runs.

The stream is eos d1 eos d2 ... eos: one boundary token ends a document and starts the next, so an n-gram may
begin or end with it but never has it inside. The windows are sorted by counting sort, last word first; one pass over
the sorted order then yields the counts of every order at once.
"""

import numpy as np

from chainrule.kernels.jit import in_parallel, inlined, kernel, ranges
from chainrule.ngram.trie import Trie, check_nodes, link_suffixes
from chainrule.progress import Advance

MAX_TOKENS = 1 << 31  # positions are 32-bit; larger corpora are counted in parts and merged


@inlined
def _digit(ids, position, offset, eos):
    """1 + the word at `offset` in the window from `position`, or 0 where the window has ended."""
    if position + offset >= len(ids):
        return 0
    for before in range(1, offset):
        if ids[position + before] == eos:
            return 0
    return np.int64(ids[position + offset]) + 1


@kernel
def _histogram(ids, order, start, stop, offset, eos, counts):
    for i in range(start, stop):
        counts[_digit(ids, np.int64(order[i]), offset, eos)] += 1


@kernel
def _scatter(ids, order, start, stop, offset, eos, places, target):
    for i in range(start, stop):
        digit = _digit(ids, np.int64(order[i]), offset, eos)
        target[places[digit]] = order[i]
        places[digit] += 1


def sort_windows(
    ids: np.ndarray, order: int, vocabulary_size: int, eos: int, advance: Advance = lambda tokens: None
) -> np.ndarray:
    """Positions of the stream (but the last) in the order of the `order` words that start there."""
    windows = len(ids) - 1
    current = np.arange(windows, dtype=np.uint32)
    target = np.empty_like(current)
    parts = ranges(0, windows)
    for offset in range(order - 1, -1, -1):
        places = np.zeros((len(parts), vocabulary_size + 1), np.int64)
        in_parallel(
            _histogram,
            [(ids, current, *part, offset, eos, row) for part, row in zip(parts, places, strict=True)],
        )
        # Where each part's first window with each digit goes: after all smaller digits, and earlier parts' equals.
        flat = places.T.reshape(-1)
        ends = np.cumsum(flat)
        places = np.ascontiguousarray((ends - flat).reshape(-1, len(parts)).T)
        in_parallel(
            _scatter,
            [(ids, current, *part, offset, eos, row, target) for part, row in zip(parts, places, strict=True)],
        )
        current, target = target, current
        advance(windows // (order + 1))
    return current


@kernel
def _compare_neighbours(ids, windows, start, stop, order, eos, shared, depth):
    """shared[i]: how many first words window i has in common with the one before; depth[i]: how many it has."""
    for i in range(start, stop):
        position = np.int64(windows[i])
        other = np.int64(windows[i - 1]) if i else position
        length = 0
        same = 0
        is_same = i > 0
        while length < order and position + length < len(ids):
            word = ids[position + length]
            if is_same and other + length < len(ids) and ids[other + length] == word:
                same += 1
            else:
                is_same = False
            length += 1
            if length > 1 and word == eos:
                break
        shared[i] = same
        depth[i] = length


@kernel
def _level_sizes(shared, depth, sizes):
    for i in range(len(shared)):
        for k in range(shared[i] + 1, depth[i] + 1):
            sizes[k] += 1


@kernel
def _read_off(ids, windows, shared, depth, order, next_node, word, first_child, count):
    """One pass over sorted windows: a window opens a new n-gram of every order beyond what it shares."""
    current = np.zeros(order + 1, np.int64)
    last_word = np.int64(-1)
    for i in range(len(windows)):
        position = np.int64(windows[i])
        for k in range(shared[i] + 1, depth[i] + 1):
            if k == 1:
                node = 1 + np.int64(ids[position])
                for skipped in range(last_word + 1, node):  # words that never occur have no children
                    if order > 1:
                        first_child[1 + skipped] = next_node[2]
                last_word = node - 1
            else:
                node = next_node[k]
                next_node[k] += 1
                word[node] = ids[position + k - 1]
            current[k] = node
            if 1 < k < order:
                first_child[node] = next_node[k + 1]
        for k in range(1, depth[i] + 1):
            count[current[k]] += 1
    return last_word


def count_ngrams(
    ids: np.ndarray, order: int, vocabulary_size: int, eos: int, advance: Advance = lambda tokens: None
) -> Trie:
    """Count every n-gram of orders 1 to `order` of a stream that starts and ends with eos; `advance`: progress."""
    assert ids[0] == ids[-1] == eos, "a stream starts and ends with eos"
    assert len(ids) < MAX_TOKENS
    windows = sort_windows(ids, order, vocabulary_size, eos, advance)
    shared = np.empty(len(windows), np.uint8)
    depth = np.empty(len(windows), np.uint8)
    calls = [(ids, windows, *part, order, eos, shared, depth) for part in ranges(0, len(windows))]
    in_parallel(_compare_neighbours, calls)

    sizes = np.zeros(order + 1, np.int64)
    _level_sizes(shared, depth, sizes)
    sizes[0], sizes[1] = 1, vocabulary_size
    level_starts = np.concatenate([[0], np.cumsum(sizes)])
    nodes = int(level_starts[-1])
    check_nodes(nodes)

    word = np.empty(nodes, np.uint32)
    word[0] = 0
    word[1 : 1 + vocabulary_size] = np.arange(vocabulary_size)
    count = np.zeros(nodes, np.uint32)
    first_child = np.empty(int(level_starts[order]) + 1, np.uint32)
    first_child[0] = 1
    next_node = np.append(level_starts[:-1], nodes)  # (order + 2)
    last_word = _read_off(ids, windows, shared, depth, order, next_node, word, first_child, count)
    if order > 1:
        first_child[2 + last_word : 2 + vocabulary_size] = next_node[2]
    first_child[-1] = nodes
    count[0] = len(windows)
    del windows, shared, depth

    trie = Trie(order, vocabulary_size, eos, level_starts, word, first_child, np.empty(nodes, np.uint32), count)
    missing = link_suffixes(trie)
    advance(len(ids) // (order + 1))
    assert missing == 0, "every suffix of a counted n-gram is counted"
    return trie
