"""Gradient times input: how a prediction answers to the vector of each token, added up on the way from none to all.

At the text itself a gradient says little: a prediction that is certain no longer moves. So gradients are averaged along
the straight line from average vectors x̄ to the text's own x (integrated gradients, Sundararajan et al. 2017), and
Σ (x - x̄) · ∂ log p(token)/∂x is what the text as a whole does to log p(token).
"""

import numpy as np
import torch
from torch import Tensor

from chainrule.layers.embedding import HashedNgrams, ngram_hashes
from chainrule.models._neural import NeuralModel
from chainrule.models._token_gradients import token_gradients, token_tables

STEPS = 16  # on the line


def gradient_times_input(model: NeuralModel, ids: np.ndarray, token: int, steps: int = STEPS) -> np.ndarray | None:
    """What the vector of each token adds to log p(token), in nats: (time,). None: the model has no token vectors.

    The vector of a hashed n-gram counts in equal parts for the tokens of that n-gram.
    """
    if not token_tables(model):
        return None
    shares = (np.arange(steps) + 0.5) / steps
    lines = [token_gradients(model, ids, token, float(share)) for share in shares]
    total = torch.zeros(len(ids), dtype=lines[0][0].slope.dtype)
    for number, (table, difference, _) in enumerate(lines[0]):
        slopes = torch.stack([line[number].slope for line in lines]).mean(0)
        if isinstance(table, HashedNgrams):
            total += _credit_ngrams(table, ids, slopes)
        else:
            total += (difference * slopes).sum(-1)
    result: np.ndarray = total.numpy()
    return result


def _credit_ngrams(table: HashedNgrams, ids: np.ndarray, slopes: Tensor) -> Tensor:
    """What the vectors of n-grams add to log p, shared out among the tokens of each n-gram: (time,)."""
    tokens = torch.from_numpy(np.asarray(ids, np.int64))[None]
    hashes = ngram_hashes(tokens, table.start(1), table.largest, table.rows)
    total = slopes.new_zeros(len(ids))
    for n, places in enumerate(hashes, 2):
        vectors = table.weight.detach()[places[0] + (n - 2) * table.rows]  # (time, width)
        share = (vectors * slopes).sum(-1) / torch.arange(1, len(ids) + 1).clamp(max=n)
        for back in range(min(n, len(ids))):
            total[: len(total) - back] += share[back:]
    return total
