"""The interpolation weights of Jelinek-Mercer smoothing, fitted by EM on held-out text.

Contexts share a weight with all others that occurred about as often (buckets of powers of two).
"""

import numpy as np

from chainrule.kernels.jit import kernel
from chainrule.ngram.trie import Trie, context_totals, find_child

BUCKETS = 24
MOST_JUMPS = 100
MOST_TOKENS = 200_000  # of held-out text
CLOSE_ENOUGH = 1e-4  # EM has converged when no weight changes by more
PRIOR_TOKENS = 0.1  # the rule's weights count as much as so many held-out tokens


def bucket(total: np.ndarray) -> np.ndarray:
    """0 for contexts seen once, 1 for two or three times, 2 for four to seven ..."""
    found: np.ndarray = np.minimum(np.log2(np.maximum(total, 1)).astype(np.int64), BUCKETS - 1)
    return found


@kernel
def _gather(ids, word, first_child, count, followed, order, eos, frequency, tokens):
    """For each token and order: its relative frequency after that context, and how often the context was followed."""
    contexts = np.zeros(order, np.int64)  # contexts[k]: the node of the k words before, or -1
    for i in range(1, len(ids)):
        contexts[0] = 0
        for length in range(1, order):
            contexts[length] = -1
            start = i - length
            if start < 0:
                break
            node = np.int64(0)
            for position in range(start, i):
                node = find_child(word, first_child, node, np.int64(ids[position]))
                if node < 0:
                    break
            contexts[length] = node
            if node < 0 or ids[start] == eos:
                break
        for length in range(order):
            context = contexts[length]
            tokens[i - 1, length] = 0
            frequency[i - 1, length] = 0.0
            if context < 0:
                break
            total = followed[context]
            child = find_child(word, first_child, context, np.int64(ids[i]))
            tokens[i - 1, length] = total
            if child >= 0 and total > 0:
                frequency[i - 1, length] = count[child] / total
            if length > 0 and ids[i - length] == eos:
                break


def weights_by_rule(order: int) -> np.ndarray:
    """Weights without held-out text: C / (C + 1) for a context that was seen C times."""
    seen = 2.0 ** np.arange(BUCKETS)
    return np.tile(seen / (seen + 1), (order, 1))


def gather(trie: Trie, held_out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per held-out token and context length: relative frequency after it, how often it was followed (0: never seen)."""
    frequency = np.zeros((len(held_out) - 1, trie.order))
    tokens = np.zeros((len(held_out) - 1, trie.order), np.int64)
    followed = np.concatenate([context_totals(trie, trie.count, k)[0] for k in range(trie.order)])
    _gather(held_out, trie.word, trie.first_child, trie.count, followed, trie.order, trie.eos, frequency, tokens)
    return frequency, tokens


def fit_weights(trie: Trie, held_out: np.ndarray | None) -> tuple[np.ndarray, str]:
    """Weights (order, BUCKETS) of the relative frequency against all shorter contexts, and a note on their origin."""
    if held_out is None or len(held_out) < 2:
        note = "interpolation weights set by rule: there is no held-out text to fit them on"
        return weights_by_rule(trie.order), note
    if len(held_out) > MOST_TOKENS:  # more would not change so few weights
        held_out = held_out[: np.flatnonzero(held_out[:MOST_TOKENS] == trie.eos)[-1] + 1]
    frequency, tokens = gather(trie, held_out)
    pools = bucket(tokens)
    evidence = (frequency, tokens > 0, pools, trie.vocabulary_size)
    weights = weights_by_rule(trie.order)
    for _ in range(MOST_JUMPS):
        previous, weights = weights, _jump(weights, evidence)
        if np.abs(weights - previous).max() < CLOSE_ENOUGH:
            break
    note = f"interpolation weights fitted on {len(held_out) - 1:,} held-out tokens"
    return weights, f"{note}; figures on that same text flatter the model a little"


Evidence = tuple[np.ndarray, np.ndarray, np.ndarray, int]


def _jump(weights: np.ndarray, evidence: Evidence) -> np.ndarray:
    """Two rounds of EM and an extrapolation from them (SQUAREM, Varadhan and Roland 2008), unless that was worse."""
    once, _ = em_round(weights, evidence)
    twice, likelihood = em_round(once, evidence)
    step, bend = once - weights, twice - 2 * once + weights
    length = max(float(np.linalg.norm(step)) / max(float(np.linalg.norm(bend)), 1e-12), 1.0)
    jumped = np.clip(weights + 2 * length * step + length**2 * bend, 1e-4, 1 - 1e-4)
    settled, jumped_likelihood = em_round(jumped, evidence)
    return settled if jumped_likelihood >= likelihood else twice


def em_round(weights: np.ndarray, evidence: Evidence) -> tuple[np.ndarray, float]:
    """One round for the chain p_k = lambda_k f_k + (1 - lambda_k) p_{k-1}: how much of each p_k did f_k explain?

    Also the log-likelihood of the weights it was given.
    """
    frequency, is_seen, pools, vocabulary_size = evidence
    order = frequency.shape[1]
    below = np.full(len(frequency), 1.0 / vocabulary_size)
    parts, chain = [], []
    for k in range(order):
        weight = np.where(is_seen[:, k], weights[k][pools[:, k]], 0.0)
        chain.append(weight)
        parts.append(below)
        below = weight * frequency[:, k] + (1 - weight) * below
    reach = np.ones(len(frequency))  # probability that the token was left to this order by all longer ones
    updated, prior = weights.copy(), weights_by_rule(order)
    for k in range(order - 1, -1, -1):
        own = chain[k] * frequency[:, k]
        explained = own / (own + (1 - chain[k]) * parts[k])
        seen = is_seen[:, k]
        asked = np.bincount(pools[seen, k], reach[seen], BUCKETS)
        used = np.bincount(pools[seen, k], (reach * explained)[seen], BUCKETS)
        # A little of the rule keeps weights inside (0, 1), so nothing seen or unseen becomes impossible.
        updated[k] = (used + PRIOR_TOKENS * prior[k]) / (asked + PRIOR_TOKENS)
        reach = reach * np.where(seen, 1 - explained, 1.0)
    return updated, float(np.log(below).sum())
