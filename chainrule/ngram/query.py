"""Querying an n-gram model: scores of a text, whole distributions, and the node of a context.

The model is an automaton: a state is the longest context in the trie; a word moves along a child, or falls back
along suffix links, paying the back-off weight each time. The words before that are no part of the state, because no
such context is in the trie, cost the back-off weight of unseen contexts: none, except in stupid back-off.
"""

import numpy as np

from chainrule.kernels.jit import in_parallel, inlined, kernel, ranges
from chainrule.ngram.smoothing import Estimates
from chainrule.ngram.trie import Trie, find_child


@inlined
def _advance(word, first_child, suffix, log_probability, backoff, top, state, token):
    """(log p(token | state), the n-gram that matched, the next state)."""
    score = 0.0
    while True:
        child = find_child(word, first_child, state, token)
        if child >= 0:
            break
        score += backoff[state]
        state = np.int64(suffix[state])
    score += log_probability[child]
    return score, child, (child if child < top else np.int64(suffix[child]))


@inlined
def _length(level_starts, node):
    """How many words the n-gram of a node has."""
    length = 0
    while node >= level_starts[length + 1]:
        length += 1
    return length


@kernel
def _score(
    ids, start, stop, word, first_child, suffix, log_probability, backoff, unseen_backoff, level_starts, eos,
    scores, matched,
):  # fmt: skip
    """Score ids[start + 1 : stop + 1]; of what is before start, only the contexts of these are read."""
    order = len(level_starts) - 2
    top = level_starts[order]
    state = np.int64(0)
    begin = start
    while begin > 0 and start - begin < order - 1 and ids[begin] != eos:
        begin -= 1
    before = 0  # how many words the whole context has, in the trie or not
    for i in range(begin, stop + 1):
        token = np.int64(ids[i])
        unseen = 0.0
        if unseen_backoff != 0.0:
            unseen = unseen_backoff * (before - _length(level_starts, state))
        score, child, state = _advance(word, first_child, suffix, log_probability, backoff, top, state, token)
        if i > start:
            scores[i - 1] = unseen + score
            matched[i - 1] = _length(level_starts, child)
        before = min(before + 1, order - 1)
        if token == eos:
            state = 1 + token if order > 1 else np.int64(0)
            before = min(1, order - 1)


def score_stream(trie: Trie, estimates: Estimates, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For every token after the first of a stream eos d1 eos ... eos: log p, and the length of the n-gram found."""
    scores = np.empty(max(len(ids) - 1, 0), np.float32)
    matched = np.empty(len(scores), np.uint8)
    fixed = (
        trie.word,
        trie.first_child,
        trie.suffix,
        estimates.log_probability,
        estimates.backoff,
        estimates.unseen_backoff,
        trie.level_starts,
        trie.eos,
    )
    in_parallel(_score, [(ids, *part, *fixed, scores, matched) for part in ranges(0, len(scores))])
    return scores, matched


@inlined
def _context_start(words, eos):
    """Where in `words` the document begins: after any -1, and not before the last boundary."""
    begin = len(words)
    while begin > 0 and words[begin - 1] >= 0:
        begin -= 1
        if words[begin] == eos:
            break
    return begin


@kernel
def context_node(words, word, first_child, top, eos):
    """The node of the longest suffix of `words` that is a context in the trie, within the document and after any -1."""
    begin = _context_start(words, eos)
    for start in range(begin, len(words)):
        node = np.int64(0)
        for i in range(start, len(words)):
            node = find_child(word, first_child, node, np.int64(words[i]))
            if node < 0 or node >= top:
                node = np.int64(-1)
                break
        if node >= 0:
            return node
    return np.int64(0)


@kernel
def _distribution(node, paid, word, first_child, suffix, log_probability, backoff, vocabulary_size, out):
    """log p(. | node) for the whole vocabulary: from the shortest context up, longer ones overwrite their words.

    `paid`: for contexts longer than the node's.
    """
    chain = np.empty(256, np.int64)
    weights = np.empty(
        256, np.float32
    )  # weights[i]: what a word found at chain[i] pays for the longer contexts that missed it
    length = 0
    while True:
        chain[length] = node
        weights[length] = paid
        length += 1
        if node == 0:
            break
        paid += backoff[node]
        node = np.int64(suffix[node])
    for w in range(vocabulary_size):
        out[w] = log_probability[1 + w] + weights[length - 1]
    for i in range(length - 2, -1, -1):
        for child in range(first_child[chain[i]], first_child[chain[i] + 1]):
            out[word[child]] = log_probability[child] + weights[i]


@kernel
def _distributions(
    contexts, word, first_child, suffix, log_probability, backoff, unseen_backoff, level_starts, eos, vocabulary_size,
    out,
):  # fmt: skip
    top = level_starts[len(level_starts) - 2]
    for i in range(len(contexts)):
        node = context_node(contexts[i], word, first_child, top, eos)
        missing = len(contexts[i]) - _context_start(contexts[i], eos) - _length(level_starts, node)
        paid = np.float32(unseen_backoff * missing)
        _distribution(node, paid, word, first_child, suffix, log_probability, backoff, vocabulary_size, out[i])


def distributions(trie: Trie, estimates: Estimates, contexts: np.ndarray) -> np.ndarray:
    """log p(. | context) for each row of contexts (rows, order - 1), -1 where there is no word."""
    out = np.empty((len(contexts), trie.vocabulary_size), np.float32)
    _distributions(
        np.ascontiguousarray(contexts, np.int64), trie.word, trie.first_child, trie.suffix,
        estimates.log_probability, estimates.backoff, estimates.unseen_backoff, trie.level_starts, trie.eos,
        trie.vocabulary_size, out,
    )  # fmt: skip
    return out


@kernel
def _context_lengths(contexts, word, first_child, suffix, level_starts, top, eos, lengths):
    for i in range(len(contexts)):
        node = context_node(contexts[i], word, first_child, top, eos)
        while node > 0 and first_child[node] == first_child[node + 1]:  # every word has a node, followed or not
            node = np.int64(suffix[node])
        lengths[i] = _length(level_starts, node)


def context_lengths(trie: Trie, contexts: np.ndarray) -> np.ndarray:
    """The length of the longest suffix of each row of contexts after which the trie has seen a word."""
    lengths = np.zeros(len(contexts), np.int64)
    top = int(trie.level_starts[trie.order])
    rows = np.ascontiguousarray(contexts, np.int64)
    _context_lengths(rows, trie.word, trie.first_child, trie.suffix, trie.level_starts, top, trie.eos, lengths)
    return lengths
