"""Queries, keys and values from the layer that makes all three: normalised (QK-norm) and rotated, and the gradient."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from chainrule.kernels import heads
from chainrule.kernels.rms_norm import pieces_of
from chainrule.layers.training_kernels import can_train_by_kernels, run


class _Turn(torch.autograd.Function):
    """Queries, keys and values of stacked heads; both gains have the shape (2, half of a head's width)."""

    @staticmethod
    def forward(
        ctx: Any, stacked: Tensor, gains: Tensor, epsilon: float | None, cosine: Tensor, sine: Tensor, num_heads: int
    ) -> tuple[Tensor, ...]:
        stacked = stacked.contiguous()
        batch, time, total, width = stacked.shape
        others = (total - num_heads) // 2
        counts, offsets = (num_heads, others), (0, num_heads)
        turned = [stacked.new_empty(batch, time, count, width) for count in counts]
        scales = [stacked.new_empty((0, 0) if epsilon is None else (batch * time, count)) for count in counts]
        rows, common = _halved(stacked), (epsilon or 0.0, cosine, sine)
        for offset, gain, y, scale in zip(offsets, gains, turned, scales, strict=True):
            run(heads.turn, rows, offset, gain, *common, _halved(y), scale)
        ctx.save_for_backward(stacked, gains, cosine, sine, *scales)
        ctx.offsets = offsets
        return *(each.transpose(1, 2) for each in turned), stacked[:, :, -others:].clone().transpose(1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        stacked, gains, cosine, sine, *scales = ctx.saved_tensors
        *turned, value = (each.transpose(1, 2).contiguous() for each in gradients)
        rows, to_stacked = _halved(stacked), torch.empty_like(stacked)
        to_gains = gains.new_zeros(2, pieces_of(len(rows)), *gains.shape[1:])
        for offset, gain, scale, y, to_gain in zip(ctx.offsets, gains, scales, turned, to_gains, strict=True):
            run(heads.turn_back, rows, offset, gain, cosine, sine, scale, _halved(y), _halved(to_stacked), to_gain)
        to_stacked[:, :, -value.shape[2] :] = value
        return to_stacked, to_gains.sum(1), None, None, None, None


def _halved(x: Tensor) -> Tensor:
    """(batch, time, heads, width) -> (batch · time, heads, 2, width / 2)"""
    return x.view(-1, x.shape[2], 2, x.shape[3] // 2)


def split_heads(
    stacked: Tensor, num_heads: int, norms: tuple[Tensor, Tensor, float] | None, rotation: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """stacked (batch, time, heads, head_width) -> query, key and value, each (batch, its heads, time, head_width).

    There are `num_heads` of queries, and as many of keys as of values. `norms`: the gains of queries and of keys, and
    epsilon. `rotation`: cosines and sines (time, head_width).
    """
    half = stacked.shape[-1] // 2
    gains = stacked.new_ones(2, 2, half) if norms is None else torch.stack(norms[:2]).unflatten(1, (2, half))
    cosine, sine = (each[:, :half].contiguous() for each in rotation)
    query, key, value = _Turn.apply(stacked, gains, norms and norms[2], cosine, sine, num_heads)
    return query, key, value


def can_split_heads(stacked: Tensor, rotation: tuple[Tensor, Tensor]) -> bool:
    """Whether `split_heads` does this: the heads are rotated whole, by the same angles in every row of the batch."""
    return rotation[0].shape == (stacked.shape[1], stacked.shape[-1]) and can_train_by_kernels(stacked, *rotation)
