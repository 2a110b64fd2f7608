"""Fits the weights of a mixture by expectation maximisation.

    λ_i ← (Σ_t λ_i p_i(w_t) / Σ_j λ_j p_j(w_t)  +  c π_i) / (T + c)

where c tokens distributed as a prior π are added to the text. The likelihood with the prior never falls and has one
maximum.
"""

import numpy as np

MOST_ROUNDS = 2000
CLOSE_ENOUGH = 1e-6  # nats per token that better weights could still gain
PRIOR_TOKENS = 0.1  # of a uniform prior, so that no weight becomes zero
BUCKET_PRIOR_TOKENS = 100.0  # of the prior of a bucket, which are the weights of the whole text


def fit_weights(log_p: np.ndarray, prior: np.ndarray | None = None, prior_tokens: float = PRIOR_TOKENS) -> np.ndarray:
    """The weights (parts,) under which a text is most likely; log_p (parts, tokens). A prior of None is uniform."""
    prior = np.full(len(log_p), 1 / len(log_p)) if prior is None else prior
    likelihood = relative(log_p)
    weights = prior
    for _ in range(MOST_ROUNDS):
        gain = slopes(weights, likelihood, prior, prior_tokens)
        if gain.max() - 1 < CLOSE_ENOUGH:  # the objective is concave, so this bounds what is left to gain
            break
        weights = weights * gain
    found: np.ndarray = weights / weights.sum()
    return found


def fit_buckets(log_p: np.ndarray, buckets: np.ndarray, count: int) -> np.ndarray:
    """Weights (buckets, parts) of each bucket, near those of the whole text where a bucket has few tokens."""
    everywhere = fit_weights(log_p)
    if count == 1:
        return everywhere[None]
    return np.stack([fit_weights(log_p[:, buckets == b], everywhere, BUCKET_PRIOR_TOKENS) for b in range(count)])


def relative(log_p: np.ndarray) -> np.ndarray:
    """p of each part divided by that of the best part; tokens that no part thinks possible are left out."""
    best = log_p.max(0)
    possible = best > -np.inf
    found: np.ndarray = np.exp(log_p[:, possible].astype(np.float64) - best[possible])
    return found


def slopes(weights: np.ndarray, likelihood: np.ndarray, prior: np.ndarray, prior_tokens: float) -> np.ndarray:
    """∂/∂λ_i of the objective, divided by T + c: above one where more weight helps. A round of EM multiplies by it."""
    explained = (likelihood / (weights @ likelihood)).sum(1) + prior_tokens * prior / weights
    found: np.ndarray = explained / (likelihood.shape[1] + prior_tokens)
    return found
