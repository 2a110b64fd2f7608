"""The back-off ladder of an n-gram model, from the longest context down to any token at all.

Interpolated, p(w | c) = own(c, w) + leftover(c) p(w | c without its first word), so the probability is a sum with one
term for each order: its own part times everything that the longer contexts have left over. A method that backs off lets
the longest context that has the word speak alone, times the weights of those that have not.
"""

from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from chainrule.models.explanation import Ladder, Rung, TokenText
from chainrule.ngram.smoothing import Estimates
from chainrule.ngram.trie import ROOT, Trie


class Counts(TypedDict, total=False):
    """The figures of a rung that come from counts; see Rung."""

    count: int
    total: int
    counted: int
    counted_total: int
    discount: float


@dataclass(frozen=True)
class Counted:
    """What the ladder needs of a fitted n-gram model."""

    trie: Trie
    estimates: Estimates
    smoothing: str  # its name
    backs_off: bool
    counts_continuations: bool
    has_counts: bool  # False: read from a file that has probabilities alone
    is_pruned: bool

    @property
    def eos(self) -> int:
        return self.trie.eos

    def context(self, ids: np.ndarray) -> list[int]:
        """The last n - 1 tokens, and none before the start of the text."""
        reach = min(self.trie.order - 1, len(ids))
        context = [int(id) for id in ids[len(ids) - reach :]]
        starts = [place for place, id in enumerate(context) if id == self.trie.eos]
        return context[starts[-1] :] if starts else context

    def context_node(self, words: list[int]) -> int | None:
        """The node of these words in the trie, if they are a context there."""
        node = self.trie.find(words)
        return node if 0 <= node < len(self.trie.first_child) - 1 else None

    def matched_context(self, ids: np.ndarray) -> list[int]:
        """The longest end of the text that the model knows as a context."""
        context = self.context(ids)
        while context and self.context_node(context) is None:
            context = context[1:]
        return context

    def leftover(self, node: int | None) -> float:
        """The back-off weight of a context, seen or (None) never seen."""
        weight = self.estimates.unseen_backoff if node is None else self.estimates.backoff[node]
        return float(np.exp(np.float64(weight)))


def climb_down(model: Counted, ids: np.ndarray, token: int, token_text: TokenText) -> Ladder:
    """The ladder of p(token | ids)."""
    context = model.context(ids)
    below = _probabilities(model, context, token)  # by order, from 0
    rungs, weight, is_found = [], 1.0, False
    for order in range(len(context) + 1, 0, -1):
        words = context[len(context) - (order - 1) :]
        node = model.context_node(words)
        leftover = model.leftover(node)
        if node is None or is_found:
            own = 0.0
        elif model.backs_off:
            is_found = model.trie.find([*words, token]) >= 0
            own = below[order] if is_found else 0.0
        else:
            own = below[order] - leftover * below[order - 1]
        shown = [token_text(word) for word in words]
        rungs.append(Rung(order, shown, own, leftover, weight, weight * own, **_counts(model, words, node, token)))
        weight = 0.0 if is_found else weight * leftover
    if not model.backs_off:
        own = below[0]
        rungs.append(Rung(0, [], own, 0.0, weight, weight * own))
    return Ladder(model.smoothing, rungs, sum(rung.contribution for rung in rungs))


def _probabilities(model: Counted, context: list[int], token: int) -> list[float]:
    """p(token) after the last 0, 1, 2 ... words of the context; before them, that of any token."""
    found = [1 / model.trie.vocabulary_size]
    for order in range(1, len(context) + 2):
        words = context[len(context) - (order - 1) :]
        child = model.trie.find([*words, token])
        if child >= 0:
            found.append(float(np.exp(np.float64(model.estimates.log_probability[child]))))
        else:
            found.append(found[-1] * model.leftover(model.context_node(words)))
    return found


def _counts(model: Counted, words: list[int], node: int | None, token: int) -> Counts:
    """How often the token came after these words, and what smoothing makes of that."""
    trie = model.trie
    if not model.has_counts or not trie.count[ROOT]:
        return {}
    if node is None:
        return {"count": 0, "total": 0}
    order = len(words) + 1
    low, high = int(trie.first_child[node]), int(trie.first_child[node + 1])
    child = trie.find([*words, token])
    count, total = int(trie.count[child]) if child >= 0 else 0, int(trie.count[low:high].sum())
    if not model.estimates.discounts or model.is_pruned:
        return {"count": count, "total": total}
    counted, counted_total = count, total
    if model.counts_continuations and order < trie.order and not (words and words[0] == trie.eos):
        longer = trie.suffix[trie.level(order + 1)]  # in how many places: the n-grams that end in this one
        inside = longer[(longer >= low) & (longer < high)]
        counted, counted_total = int((inside == child).sum()), len(inside)
    discount = model.estimates.discounts[order - 1][min(counted, 3) - 1] if counted else 0.0
    return {
        "count": count,
        "total": total,
        "counted": counted,
        "counted_total": counted_total,
        "discount": discount,
    }
