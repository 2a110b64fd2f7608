"""Builds a trie of the n-grams of an ARPA file in which every n-gram has its context and its suffix.

A file may lack some of them (pruned, or made by a program that drops them). They are added with the probability that
back-off gives them and the back-off weight one, so that all scores stay the same.
"""

import numpy as np

from chainrule.interop.arpa.text import Level
from chainrule.kernels.jit import in_parallel, kernel, ranges
from chainrule.ngram.smoothing import Estimates
from chainrule.ngram.trie import ROOT, Trie, find_child

LN10 = float(np.log(10.0))
TOLERANCE = 0.01  # how far above one probabilities may add up before they are no longer called that


class Duplicate(Exception):
    """An n-gram of k words that is there twice; the second time on the line that starts at `offset`."""

    def __init__(self, k: int, offset: int):
        super().__init__(k, offset)
        self.k, self.offset = k, offset


@kernel
def _locate(rows, first, last, word, first_child, start, stop, nodes):
    for i in range(start, stop):
        node = np.int64(0)
        for j in range(first, last):
            node = find_child(word, first_child, node, np.int64(rows[i, j]))
            if node < 0:
                break
        nodes[i] = node


class Builder:
    """Puts the levels together, from the root's on; each attribute is a list with one array per level."""

    def __init__(self, levels: list[Level], eos: int):
        root = Level(np.zeros((1, 0), np.int32), np.zeros(1), np.zeros(1), np.full(1, -1))
        self.levels, self.eos, self.order = [root, *levels], eos, len(levels)
        self.vocabulary_size = len(levels[0].words)
        self.context = [np.zeros(1, np.int64), np.zeros(self.vocabulary_size, np.int64)]
        self.suffix = [np.zeros(1, np.int64), np.zeros(self.vocabulary_size, np.int64)]
        self.first_child = [np.ones(1, np.int64)]
        self.inserted = 0

    def build(self) -> None:
        """Attach level after level; where contexts or suffixes are missing, add them and go back to their level."""
        k = 2
        while k <= self.order:
            del self.context[k:], self.suffix[k:], self.first_child[k - 1 :]
            gaps = self._attach(k)
            if len(gaps):
                self._insert(k - 1, gaps)
                k -= 1
            else:
                k += 1

    def arrays(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """`word` and `first_child` of the trie of all levels before k."""
        word = np.concatenate([[0], *(level.words[:, -1] for level in self.levels[1:k])]).astype(np.uint32)
        first_child = np.concatenate([*self.first_child[: k - 1], [len(word)]]).astype(np.uint32)
        return word, first_child

    def _attach(self, k: int) -> np.ndarray:
        """Sort the k-grams under their contexts; or return what is missing, as rows of k - 1 words."""
        rows = self.levels[k].words
        word, first_child = self.arrays(k)
        context, suffix = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        for first, last, nodes in ((0, k - 1, context), (1, k, suffix)):
            fixed = (rows, first, last, word, first_child)
            in_parallel(_locate, [(*fixed, *part, nodes) for part in ranges(0, len(rows))])
        missing = np.concatenate([rows[context < 0, :-1], rows[suffix < 0, 1:]])
        if len(missing):
            return np.unique(missing, axis=0)
        key = context * self.vocabulary_size + rows[:, -1]
        order = np.argsort(key, kind="stable")
        self.levels[k] = level = self.levels[k].select(order)
        is_repeated = key[order[1:]] == key[order[:-1]]
        if is_repeated.any():
            raise Duplicate(k, int(level.offset[1:][is_repeated].min()))
        self.context.append(context[order])
        self.suffix.append(suffix[order])
        contexts = np.arange(len(word) - len(self.levels[k - 1].words), len(word))
        self.first_child.append(len(word) + np.searchsorted(self.context[k], contexts))
        return missing

    def _insert(self, k: int, rows: np.ndarray) -> None:
        level, zeros = self.levels[k], np.zeros(len(rows))
        self.levels[k] = Level(
            np.concatenate([level.words, rows]),
            np.append(level.probability, zeros),
            np.append(level.backoff, zeros),
            np.append(level.offset, np.full(len(rows), -1)),
        )
        self.inserted += len(rows)


def build_trie(levels: list[Level], eos: int) -> tuple[Trie, Estimates]:
    """levels[k - 1] holds the k-grams, the 1-grams in the order of their ids; raises Duplicate."""
    builder = Builder(levels, eos)
    builder.build()
    levels, order = builder.levels, builder.order
    word, first_child = builder.arrays(order + 1)
    context, suffix = np.concatenate(builder.context), np.concatenate(builder.suffix)
    starts = np.concatenate([[0], np.cumsum([len(level.words) for level in levels])])
    count = np.zeros(len(word), np.uint32)
    trie = Trie(order, builder.vocabulary_size, eos, starts, word, first_child, suffix.astype(np.uint32), count)

    log_probability = np.concatenate([level.probability for level in levels]) * LN10
    backoff = np.concatenate([level.backoff for level in levels[:order]]) * LN10
    is_inserted = np.concatenate([level.offset for level in levels]) < 0
    for k in range(2, order + 1):
        nodes = starts[k] + np.flatnonzero(is_inserted[trie.level(k)])
        log_probability[nodes] = backoff[context[nodes]] + log_probability[suffix[nodes]]

    notes = []
    if builder.inserted:
        notes.append(f"n-grams added because the file lacks the contexts or endings of others: {builder.inserted:,}")
    excessive, worst = _excess(trie, context, log_probability, backoff)
    if excessive:
        found = f"after {excessive:,} contexts the probabilities add up to more than one (to {worst:.4g})"
        notes.append(f"{found}: they are scores, and have no perplexity")
    with np.errstate(over="ignore"):
        log_probability, backoff = log_probability.astype(np.float32), backoff.astype(np.float32)
    return trie, Estimates(log_probability, backoff, is_normalised=not excessive, notes=notes)


def _excess(trie: Trie, context: np.ndarray, log_probability: np.ndarray, backoff: np.ndarray) -> tuple[int, float]:
    """After how many contexts the probabilities of all words add up to more than one, and the largest sum.

    sum(context) = what its words have + back-off weight * (sum(shorter context) - what they have there)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        probability, weight = np.exp(log_probability), np.exp(backoff)
        total = np.empty(len(backoff))
        total[ROOT] = probability[trie.level(1)].sum()
        for k in range(2, trie.order + 1):
            contexts, level = trie.level(k - 1), trie.level(k)
            child, size = context[level] - contexts.start, contexts.stop - contexts.start
            seen = np.bincount(child, probability[level], size)
            shorter = np.bincount(child, probability[trie.suffix[level]], size)
            total[contexts] = seen + weight[contexts] * (total[trie.suffix[contexts]] - shorter)
    is_end = (trie.word[: len(total)] == trie.eos) & (np.arange(len(total)) >= trie.level_starts[min(2, trie.order)])
    total[is_end] = 0.0  # nothing follows the end of a document
    return int(np.count_nonzero(total > 1.0 + TOLERANCE)), float(np.nanmax(total))
