"""Softmax over a large vocabulary while training: exact, a few rows at a time, or from a sample of the words.

Exact: the loss and its gradients are made in one pass over logits that stay in the processor's cache.
Sampled: Σ_w exp(y_w) is summed over the most frequent words and over a random sample of the others, each weighted
by one over its chance of being in the sample: on average the sum is exact. The target itself is always counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from chainrule.layers.autocast import autocast_dtype, without_autocast
from chainrule.layers.gradient_context import GradientContext
from chainrule.layers.product import is_for_onednn, multiply

LOGITS_AT_ONCE = 1 << 22  # 16 MB: smaller pieces starve a second core, larger ones leave its cache
ROUNDED_AT_ONCE = 1 << 24  # in bfloat16, where products are so fast that adding up the gradients of pieces takes longer


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: GradientContext,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        smoothing: float,
        dtype: torch.dtype,
    ) -> Tensor:
        total, (_, asks_weight, asks_bias, *_) = hidden.new_zeros(()), ctx.needs_input_grad
        to_hidden, to_bias = torch.empty_like(hidden), torch.zeros_like(bias)
        to_weight = torch.zeros_like(weight) if asks_weight else None  # of a frozen one, none is wanted
        rows = max(1, (LOGITS_AT_ONCE if dtype == weight.dtype else ROUNDED_AT_ONCE) // len(weight))
        products = _Products(weight, bias, dtype)
        for h, target, gradient in zip(hidden.split(rows), targets.split(rows), to_hidden.split(rows), strict=True):
            scores = products.scores(h)  # (rows, vocabulary)
            place = target[:, None]
            wanted, top = scores.gather(1, place), scores.amax(1, keepdim=True)
            if smoothing:
                wanted = wanted.lerp(scores.mean(1, keepdim=True), smoothing)
            sums = scores.sub_(top).exp_().sum(1, keepdim=True)
            total += (sums.log() + top - wanted).sum()
            scores.div_(sums).scatter_add_(1, place, torch.full_like(sums, smoothing - 1))  # minus one at the target
            if smoothing:
                scores.sub_(smoothing / len(weight))
            gradient.copy_(products.to_hidden(scores))
            if to_weight is not None:
                products.add_to_weight(to_weight, scores, h)
            if asks_bias:
                to_bias += scores.sum(0)
        ctx.save_for_backward(to_hidden, to_weight, to_bias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: GradientContext, scale: Tensor) -> tuple[Tensor | None, ...]:
        return *_scaled(scale, *ctx.saved_tensors), None, None, None


def _scaled(scale: Tensor, *gradients: Tensor | None) -> Iterator[Tensor | None]:
    """The gradients times a scale, in place; None where none is wanted."""
    return (None if each is None else each.mul_(scale) for each in gradients)


class _Products:
    """The three products of an output layer, each by the fastest way that there is here; sums are in float32."""

    def __init__(self, weight: Tensor, bias: Tensor, dtype: torch.dtype):
        self.weight, self.bias, self.dtype = weight.to(dtype), bias, dtype
        self.is_rounded = dtype != weight.dtype
        self.by_onednn = not self.is_rounded and is_for_onednn(weight, weight)

    def scores(self, hidden: Tensor) -> Tensor:
        """(rows, width) -> W h + b (rows, vocabulary), which may be written over."""
        if self.by_onednn:
            return multiply(hidden, self.weight, self.bias)
        if self.is_rounded:
            return F.linear(hidden.to(self.dtype), self.weight).to(hidden.dtype).add_(self.bias)
        return torch.addmm(self.bias, hidden, self.weight.t())

    def to_hidden(self, gradient: Tensor) -> Tensor:
        """(rows, vocabulary) -> (rows, width)"""
        if self.by_onednn:
            return multiply(gradient, self.weight.t())
        return gradient.to(self.dtype) @ self.weight

    def add_to_weight(self, total: Tensor, gradient: Tensor, hidden: Tensor) -> None:
        """total (vocabulary, width) += gradientᵀ hidden"""
        if self.is_rounded:
            total += gradient.to(self.dtype).t() @ hidden.to(self.dtype)
        else:
            total.addmm_(gradient.t(), hidden)


def linear_cross_entropy(
    hidden: Tensor, targets: Tensor, weight: Tensor, bias: Tensor | None, smoothing: float = 0.0
) -> Tensor:
    """F.cross_entropy(F.linear(hidden, weight, bias), targets, reduction="sum"), a few rows of logits at a time.

    `smoothing`: label smoothing, the part of the probability that is spread over all words. Within torch.autocast the
    products are in its precision, and everything else in that of the weight.
    """
    bias = weight.new_zeros(len(weight)) if bias is None else bias
    dtype = autocast_dtype(weight)
    with without_autocast(hidden):
        total: Tensor = _LinearCrossEntropy.apply(hidden.to(weight.dtype), weight, bias, targets, smoothing, dtype)
    return total


@dataclass(frozen=True)
class Candidates:
    """The words over which one step computes its softmax."""

    ids: Tensor  # (candidates,)
    correction: Tensor  # (candidates,) minus the log of each one's chance
    place: Tensor  # (vocabulary,) where among `ids` a word stands, or -1


class Sampler:
    """Draws candidates: every word of the `head`, and about `tail` of the rest, frequent ones more often."""

    def __init__(self, counts: Tensor, head: int = 800, tail: int = 500):
        order = torch.argsort(counts, descending=True, stable=True)
        self.head, self.rest = order[:head], order[head:]
        self.chances = _scaled_to((counts[self.rest].float() + 1).sqrt(), tail)
        self.vocabulary_size = len(counts)

    def draw(self) -> Candidates:
        """Draw candidates with torch's random numbers, so that torch.manual_seed decides."""
        drawn = torch.rand(len(self.rest)) < self.chances
        ids = torch.cat([self.head, self.rest[drawn]])
        correction = torch.cat([torch.zeros(len(self.head)), -self.chances[drawn].log()])
        place = torch.full((self.vocabulary_size,), -1)
        place[ids] = torch.arange(len(ids))
        return Candidates(ids, correction, place)


def _scaled_to(weights: Tensor, total: float) -> Tensor:
    """Probabilities in proportion to the weights, none above one, whose sum is `total`."""
    low, high = 0.0, float(1 / weights.min()) if len(weights) else 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if float((weights * middle).clamp(max=1).sum()) > total:
            high = middle
        else:
            low = middle
    return (weights * high).clamp(max=1)


class _SampledCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: GradientContext, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, drawn: Candidates
    ) -> Tensor:
        words, wanted_words = weight[drawn.ids], weight[targets]  # (candidates, width), (rows, width)
        wanted = (hidden * wanted_words).sum(1) + bias[targets]
        place, last = drawn.place[targets], len(drawn.ids)
        place = torch.where(place < 0, last, place)[:, None]  # a target that was not drawn has the last column
        scores = hidden.new_full((len(hidden), last + 1), -torch.inf)
        torch.addmm(bias[drawn.ids] + drawn.correction, hidden, words.t(), out=scores[:, :last])
        scores.scatter_(1, place, wanted[:, None])
        top = scores.amax(1, keepdim=True)
        sums = scores.sub_(top).exp_().sum(1, keepdim=True)
        total = (sums.log() + top).sum() - wanted.sum()
        scores.div_(sums).scatter_add_(1, place, -torch.ones_like(sums))
        shared, own = scores[:, :last], scores[:, last:]
        apart = torch.nonzero(place[:, 0] == last)[:, 0]
        to_weight = to_bias = None
        if ctx.needs_input_grad[1]:
            to_weight = torch.zeros_like(weight)
            to_weight[drawn.ids] = shared.t() @ hidden
            to_weight.index_add_(0, targets[apart], own[apart] * hidden[apart])
        if ctx.needs_input_grad[2]:
            to_bias = torch.zeros_like(bias)
            to_bias[drawn.ids] = shared.sum(0)
            to_bias.index_add_(0, targets[apart], own[apart, 0])
        ctx.save_for_backward((shared @ words).addcmul_(own, wanted_words), to_weight, to_bias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: GradientContext, scale: Tensor) -> tuple[Tensor | None, ...]:
        return *_scaled(scale, *ctx.saved_tensors), None, None


def sampled_cross_entropy(
    hidden: Tensor, targets: Tensor, weight: Tensor, bias: Tensor | None, candidates: Candidates
) -> Tensor:
    """The summed loss of (rows, width) hidden vectors, with logits of the candidates and of the targets alone.

    Everything is computed in the precision of the weight, also within torch.autocast.
    """
    bias = weight.new_zeros(len(weight)) if bias is None else bias
    with without_autocast(hidden):
        total: Tensor = _SampledCrossEntropy.apply(hidden.to(weight.dtype), weight, bias, targets, candidates)
    return total
