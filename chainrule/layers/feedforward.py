"""The feed-forward half of a Transformer block: W₂ f(W₁ x), or W₂ (silu(W₁ x) ⊙ W₃ x) for SwiGLU."""

from torch import Tensor, nn

from chainrule.layers.activation import ACTIVATIONS
from chainrule.layers.linear import Linear


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
