"""RMSNorm, x / √(mean x² + ε) ⊙ gain (Zhang and Sennrich, 2019), with its gradient written out; or torch's LayerNorm.

torch.nn.RMSNorm computes the same in smaller steps, which on a CPU takes four times as long.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from chainrule.kernels import rms_norm
from chainrule.layers._choices import NORMS
from chainrule.layers.gradient_context import GradientContext
from chainrule.layers.training_kernels import can_train_by_kernels, run


def _normed(x: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    scale = x.square().mean(-1, keepdim=True).add_(epsilon).rsqrt_()
    return x * scale, scale


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: GradientContext, x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
        normed, scale = _normed(x, epsilon)
        ctx.save_for_backward(normed, scale, gain)
        return normed * gain

    @staticmethod
    @once_differentiable
    def backward(ctx: GradientContext, gradient: Tensor) -> tuple[Tensor | None, ...]:
        normed, scale, gain = ctx.saved_tensors
        product = gradient * normed  # dy ⊙ x̂
        to_gain = product.flatten(0, -2).sum(0) if ctx.needs_input_grad[1] else None
        along = (product @ gain / len(gain)).unsqueeze(-1)  # mean of dy ⊙ gain ⊙ x̂
        return torch.addcmul(gradient * gain, normed, along, value=-1).mul_(scale), to_gain, None


class _RMSNormByKernels(torch.autograd.Function):
    """The same, a row at a time."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
        x = x.contiguous()
        y, scales = torch.empty_like(x), x.new_empty(x.numel() // len(gain))
        run(rms_norm.rms_norm, x.view(-1, len(gain)), gain, epsilon, y.view(-1, len(gain)), scales)
        ctx.save_for_backward(x, scales, gain)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, scales, gain = ctx.saved_tensors
        to_x = torch.empty_like(x)
        to_gain = x.new_zeros(rms_norm.pieces_of(len(scales)), len(gain))
        rows, upstream = x.view(-1, len(gain)), gradient.contiguous().view(-1, len(gain))
        run(rms_norm.rms_norm_gradient, rows, gain, scales, upstream, to_x.view_as(rows), to_gain)
        return to_x, to_gain.sum(0), None


def normalise(x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
    """x / √(mean x² + ε) ⊙ gain, over the last axis of x."""
    if not torch.is_grad_enabled():
        return _normed(x, epsilon)[0] * gain
    function = _RMSNormByKernels if can_train_by_kernels(x, gain) and gain.is_contiguous() else _RMSNorm
    y: Tensor = function.apply(x, gain, epsilon)
    return y


class RMSNorm(nn.Module):
    def __init__(self, width: int, epsilon: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return normalise(x, self.weight, self.epsilon)


KINDS = NORMS


def make_norm(kind: str, width: int, epsilon: float = 1e-5, bias: bool = True) -> nn.Module:
    """A norm of a kind, "layer" or "rms". `bias`: whether a LayerNorm has one; an RMSNorm never does."""
    return RMSNorm(width, epsilon) if kind == "rms" else nn.LayerNorm(width, eps=epsilon, bias=bias)
