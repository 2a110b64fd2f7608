"""How a prediction answers to the vector of each token: ∂ log p(token) / ∂x at points on a line x̄ + share (x - x̄).

x are the vectors that a text has in the tables of a model, x̄ the average vectors of those tables.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.layers.embedding import HashedNgrams
from chainrule.layers.roles import Role, modules_of
from chainrule.models._neural import NeuralModel


class TokenGradient(NamedTuple):
    """Of one table of vectors, for each token of the text: (time, width) each."""

    table: nn.Module
    difference: Tensor  # x - x̄
    slope: Tensor  # ∂ log p(token) / ∂x


def token_tables(model: nn.Module) -> list[nn.Embedding | HashedNgrams]:
    """The declared tables that turn token ids into vectors; empty where an architecture declares none."""
    roles = (Role.TOKEN_TABLE, Role.SPARSE_TABLE)
    found = [module for role in roles for _, module in modules_of(model, role)]
    return [table for table in found if isinstance(table, nn.Embedding | HashedNgrams)]


class _Points:
    """Replaces what tables give by points on the line that are leaves of the graph, so that gradients end there."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.differences: dict[nn.Module, Tensor] = {}
        self.points: dict[nn.Module, Tensor] = {}

    def replace_output(self, average: Tensor) -> Callable[[nn.Module, object, object], object]:
        """A forward hook for a table of vectors."""

        def replace(table: nn.Module, arguments: object, output: object) -> object:
            vectors = output[0] if isinstance(output, tuple) else output
            assert isinstance(vectors, Tensor)
            self.differences[table] = difference = vectors.detach() - average
            self.points[table] = point = (average + self.share * difference).requires_grad_()
            return (point, *output[1:]) if isinstance(output, tuple) else point

        return replace


def token_gradients(model: NeuralModel, ids: np.ndarray, token: int, share: float = 1.0) -> list[TokenGradient]:
    """The gradient in every table of token vectors, at so much of the line; 1 is the text itself."""
    points = _Points(share)
    tables = token_tables(model)
    handles = [table.register_forward_hook(points.replace_output(_average(model, table))) for table in tables]
    try:
        hidden, _ = model.read(torch.from_numpy(np.asarray(ids, np.int64))[None], None)
        score = model.output(hidden[0, -1]).log_softmax(-1)[token]
        slopes = torch.autograd.grad(score, list(points.points.values())) if points.points else ()
    finally:
        for handle in handles:
            handle.remove()
    # A recurrent model embeds (time, batch), an MLP also what stands before the text: the batch is of one row.
    return [
        TokenGradient(table, points.differences[table].flatten(0, 1)[-len(ids) :], slope.flatten(0, 1)[-len(ids) :])
        for table, slope in zip(points.points, slopes, strict=True)
    ]


def _average(model: NeuralModel, table: nn.Embedding | HashedNgrams) -> Tensor:
    """The mean vector of all tokens. Vectors of n-grams start as zero and most stay so: their average is zero."""
    if isinstance(table, HashedNgrams):
        return table.weight.new_zeros(())
    return table.weight.detach()[: model.vocabulary_size].mean(0)
