"""Why an n-gram model predicts what it does: the back-off ladder, from the longest context down to any token at all.

Interpolated, p(w | c) = own(c, w) + leftover(c) p(w | c without its first word), so the probability is a sum with one
term for each order: its own part times everything that the longer contexts have left over. Katz, stupid back-off and
models read from files back off instead: the longest context that has the word speaks alone, and pays the weights of
those that have not.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chainrule.models import ngram
from chainrule.ngram.trie import ROOT
from chainrule.text.base import Tokenizer

BACKING_OFF = ("katz", "stupid-backoff", ngram.IMPORTED)
KNESER_NEY = ("kneser-ney", "modified-kneser-ney")
DISCOUNTING = ("absolute", *KNESER_NEY)


@dataclass(frozen=True)
class Rung:
    """One order. Order 0 is any token at all, 1/V each."""

    order: int
    context: list[str]
    own: float  # the probability that this order gives by itself
    leftover: float  # the share that it leaves to shorter contexts
    weight: float  # the share that longer contexts have left to it
    contribution: float  # weight x own
    count: int | None = None  # how often the token came after this context; None: an imported model does not know
    total: int | None = None  # how often any token did
    counted: int | None = None  # what smoothing takes for them: Kneser-Ney counts the different words before
    counted_total: int | None = None
    discount: float | None = None  # taken away from `counted`


@dataclass(frozen=True)
class Ladder:
    kind: ClassVar = "ladder"
    smoothing: str
    rungs: list[Rung]  # the longest context first
    probability: float  # the sum of their contributions


def climb_down(model: ngram.Model, ids: np.ndarray, token: int, tokenizer: Tokenizer) -> Ladder:
    """The ladder of p(token | ids)."""
    is_backing_off = model.config.smoothing in BACKING_OFF
    context = _context(model, ids)
    below = _probabilities(model, context, token)  # by order, from 0
    rungs, weight, is_found = [], 1.0, False
    for order in range(len(context) + 1, 0, -1):
        words = context[len(context) - (order - 1) :]
        node = _context_node(model, words)
        leftover = 1.0 if node is None else float(np.exp(np.float64(model.estimates.backoff[node])))
        if node is None or is_found:
            own = 0.0
        elif is_backing_off:
            is_found = model.trie.find([*words, token]) >= 0
            own = below[order] if is_found else 0.0
        else:
            own = below[order] - leftover * below[order - 1]
        numbers = _numbers(model, words, node, token)
        shown = [tokenizer.token_text(int(word)) for word in words]
        rungs.append(Rung(order, shown, own, leftover, weight, weight * own, **numbers))
        weight = 0.0 if is_found else weight * leftover
    if not is_backing_off:
        own = 1 / model.vocabulary_size
        rungs.append(Rung(0, [], own, 0.0, weight, weight * own))
    return Ladder(model.config.smoothing, rungs, sum(rung.contribution for rung in rungs))


def matched(model: ngram.Model, ids: np.ndarray) -> list[int]:
    """The longest end of the text that the model knows as a context."""
    context = _context(model, ids)
    while context and _context_node(model, context) is None:
        context = context[1:]
    return context


def _context(model: ngram.Model, ids: np.ndarray) -> list[int]:
    """The last n - 1 tokens, and none before the start of the text."""
    reach = min(model.config.order - 1, len(ids))
    context = [int(id) for id in ids[len(ids) - reach :]]
    starts = [place for place, id in enumerate(context) if id == model.eos]
    return context[starts[-1] :] if starts else context


def _probabilities(model: ngram.Model, context: list[int], token: int) -> list[float]:
    """p(token) after the last 0, 1, 2 ... words of the context; before them, of any token."""
    found = [1 / model.vocabulary_size]
    for order in range(1, len(context) + 2):
        words = context[len(context) - (order - 1) :]
        node, child = _context_node(model, words), model.trie.find([*words, token])
        if child >= 0:
            found.append(float(np.exp(np.float64(model.estimates.log_probability[child]))))
        elif node is not None:
            found.append(found[-1] * float(np.exp(np.float64(model.estimates.backoff[node]))))
        else:
            found.append(found[-1])
    return found


def _context_node(model: ngram.Model, words: list[int]) -> int | None:
    """Where the trie has these words as a context, if it does."""
    node = model.trie.find(words)
    return node if 0 <= node < len(model.trie.first_child) - 1 else None


def _numbers(model: ngram.Model, words: list[int], node: int | None, token: int) -> dict[str, Any]:
    """What is known of the token after these words, by name."""
    trie, smoothing = model.trie, model.config.smoothing
    if smoothing == ngram.IMPORTED or not trie.count[ROOT]:
        return {}
    if node is None:
        return {"count": 0, "total": 0}
    order = len(words) + 1
    low, high = int(trie.first_child[node]), int(trie.first_child[node + 1])
    child = trie.find([*words, token])
    count, total = int(trie.count[child]) if child >= 0 else 0, int(trie.count[low:high].sum())
    if smoothing not in DISCOUNTING or any(model.config.prune):
        return {"count": count, "total": total}
    counted, counted_total = count, total
    if smoothing in KNESER_NEY and order < trie.order and not (words and words[0] == trie.eos):
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
