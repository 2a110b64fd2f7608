"""Gradient times input: how a prediction answers to the vector of each token, added up on the way from none to all.

At the text itself a gradient says little: a prediction that is certain no longer moves. So gradients are averaged along
the straight line from average vectors x̄ to the text's own x (integrated gradients, Sundararajan et al. 2017), and
Σ (x - x̄) · ∂ log p(token)/∂x is what the text as a whole does to log p(token).
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.layers.embedding import HashedNgrams, ngram_hashes

STEPS = 16  # on the line


class _Leaves:
    """Replaces what tables of vectors give by points on the line, as leaves of the graph: gradients end there."""

    def __init__(self, share: float, averages: dict[str, Tensor]) -> None:
        self.share, self.averages = share, averages
        self.ends: dict[str, Tensor] = {}
        self.points: dict[str, Tensor] = {}

    def hook(self, name: str) -> Any:
        def replace(module: nn.Module, arguments: Any, output: Any) -> Any:
            vectors = output[0] if isinstance(output, tuple) else output
            self.ends[name] = end = vectors.detach()
            point = self.averages[name] + self.share * (end - self.averages[name])
            self.points[name] = point.requires_grad_()
            return (point, *output[1:]) if isinstance(output, tuple) else point

        return replace


def gradients(model: Any, ids: np.ndarray, token: int, share: float = 1.0) -> dict[str, tuple[Tensor, Tensor]]:
    """{'embedding': (x - x̄, ∂ log p(token)/∂x)} (time, width) each, of every table of vectors that a model has,
    at so much of the line; 1 is the text itself."""
    tables = {name: getattr(model, name) for name in ("embedding", "ngrams") if hasattr(model, name)}
    leaves = _Leaves(share, {name: _average(model, table) for name, table in tables.items()})
    handles = [table.register_forward_hook(leaves.hook(name)) for name, table in tables.items()]
    try:
        hidden, _ = model.read(torch.from_numpy(np.asarray(ids, np.int64))[None], None)
        score = model.output(hidden[0, -1]).log_softmax(-1)[token]
        found = torch.autograd.grad(score, list(leaves.points.values()))
    finally:
        for handle in handles:
            handle.remove()
    # A recurrent model embeds (time, batch), an MLP also what stands before the text: the batch is of one row.
    return {
        name: ((end - leaves.averages[name]).flatten(0, 1)[-len(ids) :], slope.flatten(0, 1)[-len(ids) :])
        for (name, end), slope in zip(leaves.ends.items(), found, strict=True)
    }


def _average(model: Any, table: nn.Module) -> Tensor:
    """Of the vectors of all tokens. Those of n-grams start as zero, and most stay so."""
    if isinstance(table, HashedNgrams):
        return table.weight.new_zeros(())
    assert isinstance(table, nn.Embedding)
    return table.weight.detach()[: model.vocabulary_size].mean(0)


def gradient_times_input(model: Any, ids: np.ndarray, token: int, steps: int = STEPS) -> np.ndarray:
    """What the vector of each token adds to log p(token), in nats: (time,).

    A vector of a hashed n-gram counts in equal parts for the tokens of the text that it is of.
    """
    shares = (np.arange(steps) + 0.5) / steps
    lines = [gradients(model, ids, token, float(share)) for share in shares]
    slopes = {name: torch.stack([line[name][1] for line in lines]).mean(0) for name in lines[0]}
    total = (lines[0]["embedding"][0] * slopes["embedding"]).sum(-1)
    if "ngrams" in slopes:
        total = total + _of_ngrams(model.ngrams, ids, slopes["ngrams"])
    result: np.ndarray = total.numpy()
    return result


def _of_ngrams(table: HashedNgrams, ids: np.ndarray, slopes: Tensor) -> Tensor:
    tokens = torch.from_numpy(np.asarray(ids, np.int64))[None]
    hashes = ngram_hashes(tokens, table.start(1), table.largest, table.rows)
    total = slopes.new_zeros(len(ids))
    for n, places in enumerate(hashes, 2):
        vectors = table.weight.detach()[places[0] + (n - 2) * table.rows]  # (time, width)
        share = (vectors * slopes).sum(-1) / torch.arange(1, len(ids) + 1).clamp(max=n)
        for back in range(n):
            total[: len(total) - back] += share[back:]
    return total
