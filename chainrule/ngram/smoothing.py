"""From counts to probabilities. Every method here has the form (Chen and Goodman, 1999)

    p(w | context) = scale(context) * (c(context w) - D(c)) + leftover(context) * p(w | shorter context)

and differs in its counts, its discounts D and its scale; `leftover` makes the sum one.
Katz and stupid back-off use the shorter context only for words unseen in the longer one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from chainrule.kernels.jit import in_parallel, kernel, ranges
from chainrule.ngram import discounts, interpolation
from chainrule.ngram.trie import ROOT, Trie, context_totals

ALPHA = 0.4  # of stupid back-off, as Brants et al. (2007) set it


@dataclass
class Estimates:
    """Natural logarithms of p(last word | the words before) of each node, and of the back-off weights of contexts."""

    log_probability: np.ndarray  # float32 (nodes)
    backoff: np.ndarray  # float32 (nodes below the top level)
    is_normalised: bool = True
    notes: list[str] = field(default_factory=list)
    discounts: list[list[float]] = field(default_factory=list)  # per order: D1, D2, D3+ where the method has them
    unseen_backoff: float = 0.0  # the back-off weight of contexts that have no node, as a logarithm


@dataclass(frozen=True)
class Smoothing:
    """The settings of all methods; pruning drops k-grams seen `thresholds[k - 1]` times or less."""

    k: float = 1.0
    alpha: float = ALPHA  # what stupid back-off multiplies by for each word that a context is shortened by
    discounts: tuple[float, ...] = ()  # one for all counts, or one each for counts of 1, 2, 3 and more; (): estimated
    thresholds: tuple[int, ...] = ()

    def threshold(self, order: int) -> int:
        if order == 1 or not self.thresholds:
            return 0
        return self.thresholds[min(order, len(self.thresholds)) - 1]


@kernel
def _interpolate(
    first_child, suffix, count, seen, threshold, discount, scale, rest, first, start, stop, probability, leftover
):
    """The module's formula for the children of contexts start ... stop; pruned ones leave their mass to back-off."""
    for context in range(start, stop):
        factor = scale[context - first]
        low, high = first_child[context], first_child[context + 1]
        taken = 0.0
        for child in range(low, high):
            if seen[child] <= threshold:
                taken += count[child]
            else:
                taken += discount[min(count[child], 3)]
        weight = rest[context - first] + factor * taken
        leftover[context] = weight
        for child in range(low, high):
            own = 0.0 if seen[child] <= threshold else factor * (count[child] - discount[min(count[child], 3)])
            probability[child] = own + weight * probability[suffix[child]]


@kernel
def _back_off(first_child, suffix, count, seen, threshold, ratio, total, first, start, stop, probability, leftover):
    """Katz: seen words keep a discounted share, the rest goes to unseen words in proportion to the shorter context."""
    for context in range(start, stop):
        low, high = first_child[context], first_child[context + 1]
        share, below = 0.0, 0.0
        for child in range(low, high):
            c = count[child]
            if seen[child] > threshold and c > 0:
                share += (ratio[c] if c < len(ratio) else 1.0) * c
                below += probability[suffix[child]]
        tokens = total[context - first]
        if share <= 0.0:
            leftover[context] = 1.0
            for child in range(low, high):
                probability[child] = probability[suffix[child]]
            continue
        unseen = 1.0 - below
        if unseen <= 1e-7:  # every word was seen here: nobody to leave anything to
            tokens = share
            weight = 1.0
        else:
            if tokens - share < 1e-9:  # nothing was discounted: make room for one unseen token
                tokens = share + 1.0
            weight = (1.0 - share / tokens) / unseen
        leftover[context] = weight
        for child in range(low, high):
            c = count[child]
            if seen[child] > threshold and c > 0:
                probability[child] = (ratio[c] if c < len(ratio) else 1.0) * c / tokens
            else:
                probability[child] = weight * probability[suffix[child]]


def continuation_counts(trie: Trie) -> np.ndarray:
    """Kneser-Ney's counts: plain counts for the highest order and after a document's start; for other n-grams the
    continuation count, the number of different words before them."""
    counts = trie.count.copy()
    first, last = trie.eos + 1, trie.eos + 2  # n-grams that begin a document have nothing before them
    for k in range(1, trie.order):
        level, longer = trie.level(k), trie.level(k + 1)
        start_counts = trie.count[first:last].copy()
        different = np.bincount(trie.suffix[longer] - np.uint32(level.start), minlength=level.stop - level.start)
        counts[level] = different
        if k > 1:
            counts[first:last] = start_counts
        first, last = int(trie.first_child[first]), int(trie.first_child[last])
    return counts


class Estimator:
    """What all methods share: they fill in one level after the other, from the shortest n-grams up."""

    def __init__(self, trie: Trie, smoothing: Smoothing):
        self.trie, self.smoothing = trie, smoothing
        self.probability = np.empty(len(trie.word), np.float32)
        self.probability[ROOT] = 1.0 / trie.vocabulary_size  # what every word falls back on at last
        self.leftover = np.ones(int(trie.level_starts[trie.order]), np.float32)
        self.notes: list[str] = []

    def threshold(self, k: int) -> int:
        return -1 if k == 1 else self.smoothing.threshold(k)

    def interpolate(self, k: int, count: np.ndarray, discount: np.ndarray, scale: np.ndarray, rest: np.ndarray) -> None:
        trie, contexts = self.trie, self.trie.level(k - 1)
        fixed = (
            trie.first_child,
            trie.suffix,
            count,
            trie.count,
            self.threshold(k),
            discount,
            scale,
            rest,
            contexts.start,
        )
        calls = [(*fixed, *part, self.probability, self.leftover) for part in ranges(contexts.start, contexts.stop)]
        in_parallel(_interpolate, calls)

    def back_off(self, k: int, count: np.ndarray, ratio: np.ndarray, total: np.ndarray) -> None:
        trie, contexts = self.trie, self.trie.level(k - 1)
        fixed = (trie.first_child, trie.suffix, count, trie.count, self.threshold(k), ratio, total, contexts.start)
        calls = [(*fixed, *part, self.probability, self.leftover) for part in ranges(contexts.start, contexts.stop)]
        in_parallel(_back_off, calls)

    def estimates(self, is_normalised: bool = True, discounts: Sequence[Sequence[float]] = ()) -> Estimates:
        with np.errstate(divide="ignore"):
            np.log(self.probability, out=self.probability)
            np.log(self.leftover, out=self.leftover)
        return Estimates(self.probability, self.leftover, is_normalised, self.notes, [list(d) for d in discounts])


NO_DISCOUNT = np.zeros(4)


def _reciprocal(total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1 / total, and what is left over before discounts: everything where the context was never seen."""
    seen = total > 0
    return np.divide(1.0, total, where=seen, out=np.zeros(len(total))), (~seen).astype(np.float64)


def maximum_likelihood(trie: Trie, smoothing: Smoothing, held_out: np.ndarray | None) -> Estimates:
    """Relative frequency after the longest context that was seen; what was not seen there is impossible."""
    estimator = Estimator(trie, smoothing)
    for k in range(1, trie.order + 1):
        total, _ = context_totals(trie, trie.count, k - 1)
        estimator.interpolate(k, trie.count, NO_DISCOUNT, *_reciprocal(total))
    return estimator.estimates()


def add_k(trie: Trie, smoothing: Smoothing, held_out: np.ndarray | None) -> Estimates:
    """(c + k) / (C + k V) after full contexts: of order - 1 words, or fewer where a document starts."""
    estimator = Estimator(trie, smoothing)
    pseudo = smoothing.k * trie.vocabulary_size
    first, last = 0, 1  # the contexts that begin with a document's start
    for k in range(1, trie.order + 1):
        total, _ = context_totals(trie, trie.count, k - 1)
        is_full = np.full(len(total), k == trie.order)
        if k > 1:
            first, last = (
                (trie.eos + 1, trie.eos + 2) if k == 2 else (int(trie.first_child[first]), int(trie.first_child[last]))
            )
            start = int(trie.level_starts[k - 1])
            is_full[first - start : last - start] = True
        scale = np.where(is_full, 1.0 / (total + pseudo), 0.0)
        estimator.interpolate(k, trie.count, NO_DISCOUNT, scale, 1.0 - scale * total)
    return estimator.estimates()


def jelinek_mercer(trie: Trie, smoothing: Smoothing, held_out: np.ndarray | None) -> Estimates:
    """lambda * relative frequency + (1 - lambda) * shorter context, lambda by how often the context was seen."""
    estimator = Estimator(trie, smoothing)
    weights, note = interpolation.fit_weights(trie, held_out)
    estimator.notes.append(note)
    for k in range(1, trie.order + 1):
        total, _ = context_totals(trie, trie.count, k - 1)
        scale, rest = _reciprocal(total)
        weight = weights[k - 1][interpolation.bucket(total)]
        estimator.interpolate(k, trie.count, NO_DISCOUNT, scale * weight, np.where(rest > 0, 1.0, 1.0 - weight))
    return estimator.estimates()


def witten_bell(trie: Trie, smoothing: Smoothing, held_out: np.ndarray | None) -> Estimates:
    """T / (C + T) goes to the shorter context, T being the number of different words that followed the context."""
    estimator = Estimator(trie, smoothing)
    for k in range(1, trie.order + 1):
        total, types = context_totals(trie, trie.count, k - 1)
        scale, rest = _reciprocal(total + types)
        estimator.interpolate(k, trie.count, NO_DISCOUNT, scale, rest + scale * types)
    return estimator.estimates()


def _discounting(
    trie: Trie, smoothing: Smoothing, count: np.ndarray, estimate: Callable[[np.ndarray, int], discounts.Discounts]
) -> Estimates:
    estimator = Estimator(trie, smoothing)
    found, notes = [], {}
    for k in range(1, trie.order + 1):
        level = count[trie.level(k)]
        discount = discounts.fixed(smoothing.discounts) or estimate(level[level > 0] if k == 1 else level, k)
        found.append([discount.one, discount.two, discount.more])
        if discount.note:
            notes[k] = discount.note
        total, _ = context_totals(trie, count, k - 1)
        estimator.interpolate(k, count, discount.table(), *_reciprocal(total))
    if len(notes) > 1:  # a short text would have one for every order
        orders = ", ".join(map(str, notes))
        estimator.notes.append(f"orders {orders}: discounts cannot be estimated from so little text; used simpler ones")
    else:
        estimator.notes += notes.values()
    return estimator.estimates(discounts=found)


def absolute(trie: Trie, smoothing: Smoothing, held_out: np.ndarray | None) -> Estimates:
    """Absolute discounting: one discount per order, from plain counts."""
    return _discounting(trie, smoothing, trie.count, discounts.single)


def kneser_ney(trie: Trie, smoothing: Smoothing, held_out: np.ndarray | None) -> Estimates:
    """Interpolated Kneser-Ney with one discount per order; lower orders use continuation counts: after how many
    different words a word appeared, not how often."""
    return _discounting(trie, smoothing, continuation_counts(trie), discounts.single)


def modified_kneser_ney(trie: Trie, smoothing: Smoothing, held_out: np.ndarray | None) -> Estimates:
    """Kneser-Ney with a discount each for counts of one, two, and three or more."""
    return _discounting(trie, smoothing, continuation_counts(trie), discounts.modified)


def katz(trie: Trie, smoothing: Smoothing, held_out: np.ndarray | None) -> Estimates:
    """Katz back-off: Good-Turing discounts for small counts; shorter contexts only for words unseen in longer ones."""
    estimator = Estimator(trie, smoothing)
    for k in range(1, trie.order + 1):
        ratio, note = discounts.good_turing(trie.count[trie.level(k)], k)
        if note:
            estimator.notes.append(note)
        total, _ = context_totals(trie, trie.count, k - 1)
        estimator.back_off(k, trie.count, ratio, total)
    return estimator.estimates()


def stupid_backoff(trie: Trie, smoothing: Smoothing, held_out: np.ndarray | None) -> Estimates:
    """Relative frequency, or else alpha times the score after a shorter context (Brants et al., 2007)."""
    estimator = Estimator(trie, smoothing)
    alpha = smoothing.alpha
    for k in range(1, trie.order + 1):
        level, contexts = trie.level(k), trie.level(k - 1)
        total, _ = context_totals(trie, trie.count, k - 1)
        tokens = np.repeat(total, np.diff(trie.first_child[contexts.start : contexts.stop + 1]))
        count = trie.count[level]
        estimator.probability[level] = np.where(count > 0, count / np.maximum(tokens, 1), alpha / trie.vocabulary_size)
    estimator.leftover[:] = alpha
    estimator.notes.append(
        "stupid back-off gives scores, not probabilities: they do not sum to one, and have no perplexity"
    )
    return replace(estimator.estimates(is_normalised=False), unseen_backoff=math.log(alpha))


@dataclass(frozen=True)
class Method:
    """A smoothing, and what others must know of it to explain and to change its models. Call it to estimate."""

    estimate: Callable[[Trie, Smoothing, np.ndarray | None], Estimates]
    backs_off: bool = False  # shorter contexts speak only for words unseen in longer ones; else all are interpolated
    discounts: bool = False  # subtracts discounts from counts, which can be fixed
    counts_continuations: bool = False  # in shorter contexts: the different words before a word, as Kneser-Ney does
    fits_held_out: bool = False  # its weights come from held-out text, so counts alone do not give them again

    def __call__(self, trie: Trie, smoothing: Smoothing, held_out: np.ndarray | None) -> Estimates:
        return self.estimate(trie, smoothing, held_out)


METHODS = {
    "modified-kneser-ney": Method(modified_kneser_ney, discounts=True, counts_continuations=True),
    "kneser-ney": Method(kneser_ney, discounts=True, counts_continuations=True),
    "absolute": Method(absolute, discounts=True),
    "witten-bell": Method(witten_bell),
    "katz": Method(katz, backs_off=True),
    "jelinek-mercer": Method(jelinek_mercer, fits_held_out=True),
    "add-k": Method(add_k),
    "stupid-backoff": Method(stupid_backoff, backs_off=True),
    "maximum-likelihood": Method(maximum_likelihood),
}
