"""The feed-forward half of a Transformer block: W₂ f(W₁ x), or W₂ (silu(W₁ x) ⊙ W₃ x) for SwiGLU."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def _relu_squared(x: Tensor) -> Tensor:
    return F.relu(x).square()


def _swiglu(x: Tensor) -> Tensor:
    gate, value = x.chunk(2, -1)
    return F.silu(gate) * value


class _GeluTanh(torch.autograd.Function):
    """x σ(2u) with u = √(2/π) (x + 0.044715 x³), which is x (1 + tanh u) / 2: torch's own tanh takes twice as long."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        gate = torch.addcmul(x, x.square(), x, value=CUBIC).mul_(LINEAR).sigmoid_()
        ctx.save_for_backward(x, gate)
        return x * gate

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        x, gate = ctx.saved_tensors
        slope = x.square().mul_(3 * CUBIC * LINEAR).add_(LINEAR).mul_(x)  # x du/dx · 2
        slope = torch.addcmul(slope, slope, gate, value=-1)  # ⊙ (1 - σ)
        return slope.add_(1).mul_(gate).mul_(gradient)


LINEAR = 2 * math.sqrt(2 / math.pi)
CUBIC = 0.044715


def _gelu_tanh(x: Tensor) -> Tensor:
    activated: Tensor = _GeluTanh.apply(x)
    return activated


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu-tanh": _gelu_tanh,
    "relu-squared": _relu_squared,
    "swiglu": _swiglu,
}


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden_width: int, activation: str, bias: bool = True):
        super().__init__()
        inner = 2 * hidden_width if activation == "swiglu" else hidden_width  # the gate and the value in one matrix
        self.input = nn.Linear(width, inner, bias)
        self.output = nn.Linear(hidden_width, width, bias)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return self.output(ACTIVATIONS[self.activation](self.input(x)))
