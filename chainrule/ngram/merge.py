"""Adding and subtracting counts: two tries become one, exactly as if their texts had been counted together or apart."""

import numpy as np

from chainrule.errors import UserError
from chainrule.kernels.jit import kernel
from chainrule.ngram.trie import LARGEST, Trie, check_nodes, link_suffixes


@kernel
def _merge_children(
    left_word, left_first, left_count, left_parent,
    right_word, right_first, right_count, right_parent,
    sign, out_first, base, left_node, right_node, out_word, out_count,
):  # fmt: skip
    """Merge the children of every parent, in word order; returns how many, below zero if a count became negative."""
    size = 0
    for parent in range(len(left_parent)):
        out_first[parent] = base + size
        a, b = left_parent[parent], right_parent[parent]
        i, i_end = (np.int64(left_first[a]), np.int64(left_first[a + 1])) if a >= 0 else (np.int64(0), np.int64(0))
        j, j_end = (np.int64(right_first[b]), np.int64(right_first[b + 1])) if b >= 0 else (np.int64(0), np.int64(0))
        while i < i_end or j < j_end:
            takes_left = i < i_end and (j >= j_end or left_word[i] <= right_word[j])
            takes_right = j < j_end and (i >= i_end or right_word[j] <= left_word[i])
            count = np.int64(0)
            left, right = np.int64(-1), np.int64(-1)
            if takes_left:
                word, left = left_word[i], i
                count += left_count[i]
                i += 1
            if takes_right:
                word, right = right_word[j], j
                count += sign * np.int64(right_count[j])
                j += 1
            if count < 0:
                return -1 - size
            if count > 0:
                out_word[size] = word
                out_count[size] = count
                left_node[size] = left
                right_node[size] = right
                size += 1
    out_first[len(left_parent)] = base + size
    return size


def _combine(left: Trie, right: Trie, sign: int) -> Trie:
    if (left.order, left.vocabulary_size, left.eos) != (right.order, right.vocabulary_size, right.eos):
        raise UserError(
            f"counts can only be combined at equal order and vocabulary: order {left.order} and {right.order}, "
            f"{left.vocabulary_size} and {right.vocabulary_size} tokens; train both with the same tokenizer and order"
        )
    words = left.vocabulary_size
    unigrams = left.count[: 1 + words].astype(np.int64) + sign * right.count[: 1 + words].astype(np.int64)
    if unigrams.max() > LARGEST:
        raise UserError(f"a count would be {unigrams.max():,}, but counts end at {LARGEST:,}; train on less text")
    if unigrams.min() < 0:
        raise UserError("this text was not part of what was counted; nothing was taken out")
    word, count = [left.word[: 1 + words]], [unigrams.astype(np.uint32)]
    first_child = [np.array([1], np.int64)]
    left_node = right_node = np.arange(1, 1 + words, dtype=np.int64)
    level_starts = [0, 1, 1 + words]
    for k in range(2, left.order + 1):
        most = sum(trie.level(k).stop - trie.level(k).start for trie in (left, right))
        first = np.empty(len(left_node) + 1, np.int64)
        left_next, right_next = np.empty(most, np.int64), np.empty(most, np.int64)
        words_next, counts_next = np.empty(most, np.uint32), np.empty(most, np.uint32)
        size = _merge_children(
            left.word, left.first_child, left.count, left_node,
            right.word, right.first_child, right.count, right_node,
            sign, first, level_starts[-1], left_next, right_next, words_next, counts_next,
        )  # fmt: skip
        if size < 0:
            raise UserError("this text was not part of what was counted; nothing was taken out")
        first_child.append(first[:-1])
        word.append(words_next[:size].copy())
        count.append(counts_next[:size].copy())
        left_node, right_node = left_next[:size].copy(), right_next[:size].copy()
        level_starts.append(level_starts[-1] + size)
    first_child.append(np.array([level_starts[-1] if left.order > 1 else 1 + words], np.int64))
    nodes = level_starts[-1]
    check_nodes(nodes)
    merged = Trie(
        left.order, words, left.eos, np.array(level_starts, np.int64), np.concatenate(word),
        np.concatenate(first_child).astype(np.uint32), np.empty(nodes, np.uint32), np.concatenate(count),
    )  # fmt: skip
    assert link_suffixes(merged) == 0
    return merged


def add(left: Trie, right: Trie) -> Trie:
    """The counts of both texts together."""
    return _combine(left, right, 1)


def subtract(left: Trie, right: Trie) -> Trie:
    """The counts of the left text without the right one, which must have been part of it."""
    return _combine(left, right, -1)
