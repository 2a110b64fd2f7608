"""Pruning: rare n-grams are dropped after smoothing, which has already given their probability mass to back-off."""

from dataclasses import replace

import numpy as np

from chainrule.errors import UserError
from chainrule.ngram.smoothing import Estimates
from chainrule.ngram.trie import Trie


def check_thresholds(thresholds: tuple[int, ...], order: int) -> None:
    """Refuse thresholds that do not start with 0 or that fall, as lmplz does: n-grams need their context and suffix."""
    if any(t < 0 for t in thresholds) or list(thresholds) != sorted(thresholds) or (thresholds and thresholds[0] != 0):
        raise UserError(f"pruning thresholds must start with 0 and never fall, got {' '.join(map(str, thresholds))}")
    if len(thresholds) > order:
        raise UserError(
            f"there are {len(thresholds)} pruning thresholds but the order is {order}; give at most {order}"
        )


def prune(trie: Trie, estimates: Estimates, thresholds: tuple[int, ...]) -> tuple[Trie, Estimates]:
    """The model without k-grams seen thresholds[k - 1] times or less; the last threshold holds for longer ones."""
    keep = np.ones(len(trie.word), bool)
    for k in range(2, trie.order + 1):
        level = trie.level(k)
        keep[level] = trie.count[level] > thresholds[min(k, len(thresholds)) - 1]
    before = np.concatenate([[0], np.cumsum(keep)])  # how many are kept before each node
    contexts = keep[: trie.level_starts[trie.order]]
    first_child = np.append(before[trie.first_child[:-1][contexts]], before[-1])
    pruned = Trie(
        trie.order, trie.vocabulary_size, trie.eos, before[trie.level_starts],
        trie.word[keep], first_child.astype(np.uint32), before[trie.suffix[keep]].astype(np.uint32), trie.count[keep],
    )  # fmt: skip
    return pruned, replace(
        estimates, log_probability=estimates.log_probability[keep], backoff=estimates.backoff[contexts]
    )
