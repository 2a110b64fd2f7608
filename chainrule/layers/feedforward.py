"""The feed-forward half of a Transformer block: W₂ f(W₁ x), or W₂ (silu(W₁ x) ⊙ W₃ x) for SwiGLU."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.layers.linear import Linear


def _relu_squared(x: Tensor) -> Tensor:
    return F.relu(x).square()


def _swiglu(x: Tensor) -> Tensor:
    gate, value = x.chunk(2, -1)
    return F.silu(gate) * value


def _gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu-tanh": _gelu_tanh,
    "relu-squared": _relu_squared,
    "swiglu": _swiglu,
}


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden_width: int, activation: str, bias: bool = True):
        super().__init__()
        inner = 2 * hidden_width if activation == "swiglu" else hidden_width  # the gate and the value in one matrix
        self.input = Linear(width, inner, bias)
        self.output = Linear(hidden_width, width, bias)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.output(ACTIVATIONS[self.activation](self.input(x)))
        return y
