"""Fits a mix to a text: its weights, its buckets, and the decay of its cache."""

import numpy as np

from chainrule.analysis.mix.text import ScoredText
from chainrule.models import cache
from chainrule.models._mix_weights import fit_buckets, fit_weights
from chainrule.models.mix import Model

DECAYS = (0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995)
ENTROPY_BUCKETS = 10
IMPOSSIBLE = -1000.0  # log p in nats in place of -inf


def fit(model: Model, text: ScoredText) -> Model:
    """The same mix with the weights under which the text is most likely, bucket by bucket."""
    signal = text.signal
    edges = _edges(model, signal)
    buckets = Model(model.config, model.parts, model.names, edges=edges).buckets(signal)
    weights = fit_buckets(text.log_p, buckets, len(edges) + 1)
    return Model(model.config, model.parts, model.names, weights, edges)


def _edges(model: Model, signal: np.ndarray) -> np.ndarray:
    """Where buckets end: between any two lengths of context, or at entropies that cut the text into equal shares."""
    if model.config.by == "order":
        assert model.guide is not None
        return np.arange(model.parts[model.guide].config.order - 1) + 0.5
    if model.config.by == "entropy":
        shares = np.arange(1, ENTROPY_BUCKETS) / ENTROPY_BUCKETS
        return np.quantile(signal, shares).astype(np.float64)
    return np.zeros(0)


def add_cache(model: Model, text: ScoredText) -> tuple[Model, ScoredText]:
    """The mix and the text with a cache as one more part, of the decay that predicts the text best.

    While a text has only begun, the cache falls back on the frequency of each word in this text.
    """
    counts = np.bincount(np.concatenate([batch.stream[1:] for batch in text.batches]), minlength=model.vocabulary_size)
    caches = [
        cache.Model(cache.Config(decay), model.vocabulary_size, model.eos, counts / counts.sum()) for decay in DECAYS
    ]
    found = []
    for part in caches:
        log_p = text.with_part(part).log_p
        found.append(_likelihood(log_p, fit_weights(log_p)))
    best = caches[int(np.argmax(found))]
    return Model(model.config, (*model.parts, best), (*model.names, "cache")), text.with_part(best)


def _likelihood(log_p: np.ndarray, weights: np.ndarray) -> float:
    mixed = np.logaddexp.reduce(log_p + np.log(weights)[:, None])
    return float(np.maximum(mixed, IMPOSSIBLE).sum())
