"""Products of matrices in float32 by oneDNN, on processors where those of MKL, which torch takes, leave it behind.

MKL computes 256 bits at a time on processors that are not Intel's, oneDNN 512 where there are as many. Only torch's
compiler calls oneDNN's float32 products otherwise.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from chainrule.kernels.machine import onednn_speedup
from chainrule.layers.training_kernels import are_plain

SMALL = 1 << 20  # multiplications: with fewer, what each call of oneDNN costs is not won back
WORTH_CALLING = 1.3  # how much faster oneDNN must be: far from 1, so that chance does not decide


class _Linear(torch.autograd.Function):
    """y = x Wᵀ + b; dx = dy W, dW = dyᵀ x, db = Σ_rows dy."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight)  # a frozen weight asks for no x
        return multiply(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        asks_x, asks_weight, asks_bias = ctx.needs_input_grad
        rows = gradient.reshape(-1, gradient.shape[-1])
        to_x = multiply(gradient, weight.t()) if asks_x else None
        to_weight = multiply(rows.t(), x.reshape(-1, x.shape[-1]).t()) if asks_weight else None
        return to_x, to_weight, rows.sum(0) if asks_bias else None


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (..., width), weight (outputs, width) -> x Wᵀ + b, without a gradient."""
    rows: Tensor = torch.ops.mkldnn._linear_pointwise(x.reshape(-1, x.shape[-1]), weight, bias, "none", [], "")
    return torch.ops.aten._unsafe_view(rows, [*x.shape[:-1], len(weight)])  # no view: it may be changed in place


def linear_by_onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """F.linear, where `is_for_onednn`."""
    if not torch.is_grad_enabled():
        return multiply(x, weight, bias)
    y: Tensor = _Linear.apply(x, weight, bias)
    return y


def is_for_onednn(x: Tensor, weight: Tensor) -> bool:
    """Whether the product of x (..., width) with the weight (outputs, width) is faster by oneDNN."""
    return (
        x.numel() * len(weight) >= SMALL
        and are_plain(x, weight)
        and not torch.is_autocast_enabled("cpu")
        and onednn_speedup() >= WORTH_CALLING
    )
