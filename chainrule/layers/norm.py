"""RMSNorm, x / √(mean x² + ε) ⊙ gain (Zhang and Sennrich, 2019), with its gradient written out; or torch's LayerNorm.

torch.nn.RMSNorm computes the same in smaller steps, which on a CPU takes four times as long.
"""

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from chainrule.layers._choices import NORMS
from chainrule.layers.gradient_context import GradientContext


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
    def backward(ctx: GradientContext, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        normed, scale, gain = ctx.saved_tensors
        product = gradient * normed  # dy ⊙ x̂
        to_gain = product.flatten(0, -2).sum(0)
        along = (product @ gain / len(gain)).unsqueeze(-1)  # mean of dy ⊙ gain ⊙ x̂
        return torch.addcmul(gradient * gain, normed, along, value=-1).mul_(scale), to_gain, None


class RMSNorm(nn.Module):
    def __init__(self, width: int, epsilon: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return _normed(x, self.epsilon)[0] * self.weight
        normed: Tensor = _RMSNorm.apply(x, self.weight, self.epsilon)
        return normed


KINDS = NORMS


def make_norm(kind: str, width: int, epsilon: float = 1e-5, bias: bool = True) -> nn.Module:
    """A norm of a kind, "layer" or "rms". `bias`: whether a LayerNorm has one; an RMSNorm never does."""
    return RMSNorm(width, epsilon) if kind == "rms" else nn.LayerNorm(width, eps=epsilon, bias=bias)
