"""What each place of the context weighs, for the models before the Transformer: MLP, bag of words, attention.

An MLP's or a bag's tanh units see a sum with one term for each token, a = d + Σ_j a_j. What a unit adds to a logit
beyond its value at d is shared out in proportion to the terms, (tanh(a) - tanh(d)) a_j / (a - d) (DeepLIFT's rule,
Shrikumar et al. 2017), so that shares and constants add up to the logit exactly.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from chainrule.analysis.explain.record import read
from chainrule.models import attention, bow, mlp


@dataclass(frozen=True)
class Inside:
    """One entry for each token read, 0 for those out of reach."""

    kind: ClassVar = "positions"

    weights: list[list[float]]  # of each head: attention's; of a bag one over their number; of an MLP none
    contributions: list[float] | None  # to the token's logit; with `constant` they add up to it
    constant: float | None
    logit: float


@torch.no_grad()
def look_inside(model: Any, ids: np.ndarray, token: int) -> Inside:
    hidden, calls = read(model, ids)
    logit = float(model.output(hidden[-1])[token])
    count = len(ids)
    if isinstance(model, attention.Model):
        query, key, _ = (each[0] for each in model._project(model._embed(torch.from_numpy(ids)[None], 0)))
        scores = query[:, -1:] @ key.transpose(1, 2) / query.shape[-1] ** 0.5  # (heads, 1, time)
        weights = scores.softmax(-1)[:, 0]
        return Inside(weights.tolist(), None, None, logit)
    output = model.unembedding.weight[token]
    if isinstance(model, bow.Model):
        terms = calls[model.embedding].output[0] / count @ model.hidden.weight.t()  # (time, hidden_width)
        shares, at_rest = _through_tanh(terms, model.hidden.bias)
        constant = output @ at_rest + model.unembedding.bias[token]
        return Inside([[1 / count] * count], (shares @ output).tolist(), float(constant), logit)
    assert isinstance(model, mlp.Model)
    contributions, constant = _of_mlp(model, ids, token)
    return Inside([], contributions, constant, logit)


def _of_mlp(model: mlp.Model, ids: np.ndarray, token: int) -> tuple[list[float], float]:
    """Places before the text, which have a vector too, count for the constant."""
    reach, width = model.config.order - 1, model.config.width
    words = torch.full((reach,), model.none)
    known = torch.from_numpy(np.asarray(ids[-reach:], np.int64))
    words[reach - len(known) :] = known
    vectors = model.embedding(words.flip(0))  # the latest first, as the layers want them
    blocks = model.hidden.weight.view(-1, reach, width)
    terms = torch.einsum("urw,rw->ru", blocks, vectors)  # (reach, hidden_width)
    shares, at_rest = _through_tanh(terms, model.hidden.bias)
    output, direct = model.unembedding.weight[token].split(
        [model.config.hidden_width, model.unembedding.in_features - model.config.hidden_width]
    )
    each = shares @ output
    if model.config.is_direct:
        each = each + (direct.view(reach, width) * vectors).sum(-1)
    constant = output @ at_rest + model.unembedding.bias[token] + each[len(known) :].sum()
    found = np.zeros(len(ids))
    found[len(ids) - len(known) :] = each[: len(known)].flip(0).numpy()
    return found.tolist(), float(constant)


def _through_tanh(terms: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Each term's share of tanh(bias + Σ terms) - tanh(bias), and tanh(bias); where nothing moved, by the slope."""
    total = terms.sum(0)
    moved = torch.tanh(bias + total) - torch.tanh(bias)
    is_still = total.abs() < 1e-6
    slope = torch.where(is_still, 1 - torch.tanh(bias).square(), moved / torch.where(is_still, 1.0, total))
    return terms * slope, torch.tanh(bias)
