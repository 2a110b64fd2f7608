"""Weights of a mixture by expectation maximisation: how much of the text does each part explain?

    λ_i ← (Σ_t λ_i p_i(w_t) / Σ_j λ_j p_j(w_t)  +  c π_i) / (T + c)

as if c more tokens had been shared out by a prior π. The likelihood, prior included, never falls, and has one maximum.
"""

import numpy as np

MOST_ROUNDS = 2000
CLOSE_ENOUGH = 1e-6  # nats a token that better weights could still gain
PRIOR_TOKENS = 0.1  # that all parts share alike: no weight becomes zero
BUCKET_PRIOR_TOKENS = 100.0  # that the weights of the whole text share out in every bucket


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
    return weights / weights.sum()


def fit_buckets(log_p: np.ndarray, buckets: np.ndarray, count: int) -> np.ndarray:
    """Weights (buckets, parts): each bucket's own, leaning on those of the whole text where it has little of it."""
    everywhere = fit_weights(log_p)
    if count == 1:
        return everywhere[None]
    return np.stack([fit_weights(log_p[:, buckets == b], everywhere, BUCKET_PRIOR_TOKENS) for b in range(count)])


def relative(log_p: np.ndarray) -> np.ndarray:
    """p of each part over the best part's; tokens that are impossible to all parts tell nothing and are left out."""
    best = log_p.max(0)
    possible = best > -np.inf
    return np.exp(log_p[:, possible].astype(np.float64) - best[possible])


def slopes(weights: np.ndarray, likelihood: np.ndarray, prior: np.ndarray, prior_tokens: float) -> np.ndarray:
    """∂/∂λ_i of the objective over T + c: above one where more weight would pay. A round of EM multiplies by it."""
    explained = (likelihood / (weights @ likelihood)).sum(1) + prior_tokens * prior / weights
    return explained / (likelihood.shape[1] + prior_tokens)
