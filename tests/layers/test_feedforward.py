"""Activations equal their formulas, and the feed-forward network its equation."""

import math

import pytest
import torch

from chainrule.layers import _choices
from chainrule.layers.activation import ACTIVATIONS
from chainrule.layers.feedforward import FeedForward

FORMULAS = {
    "relu": lambda x: max(x, 0.0),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "gelu-tanh": lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "relu-squared": lambda x: max(x, 0.0) ** 2,
}
POINTS = [-8.0, -3.0, -1.0, -0.5, 0.0, 0.25, 1.0, 2.0, 6.0]


@pytest.mark.parametrize("name", FORMULAS)
def test_activations_are_their_formulas(name: str):
    found = ACTIVATIONS[name](torch.tensor(POINTS, dtype=torch.float64)).tolist()
    assert found == pytest.approx([FORMULAS[name](x) for x in POINTS], abs=1e-12)


def test_swiglu_gates_one_half_by_the_other():
    halves = torch.tensor([*POINTS, *reversed(POINTS)], dtype=torch.float64)
    expected = [FORMULAS["silu"](gate) * value for gate, value in zip(POINTS, reversed(POINTS), strict=True)]
    assert ACTIVATIONS["swiglu"](halves).tolist() == pytest.approx(expected, abs=1e-12)


def test_every_activation_is_tested():
    assert set(ACTIVATIONS) == {*FORMULAS, "swiglu"}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_network_is_its_equation(activation: str, bias: bool):
    """W₂ f(W₁ x + b₁) + b₂, and for SwiGLU W₂ (silu(W₁ x + b₁) ⊙ (W₃ x + b₃)) + b₂."""
    torch.manual_seed(0)
    layer = FeedForward(3, 5, activation, bias).double()
    x = torch.randn(2, 4, 3, dtype=torch.float64)
    W, W2 = layer.input.weight, layer.output.weight
    inner = x @ W.T + (layer.input.bias if bias else 0)
    assert W.shape == ((10, 3) if activation == "swiglu" else (5, 3))
    if activation == "swiglu":
        hidden = inner[..., :5].detach().clone().apply_(FORMULAS["silu"]) * inner[..., 5:]
    else:
        hidden = inner.detach().clone().apply_(FORMULAS[activation])
    expected = hidden @ W2.T + (layer.output.bias if bias else 0)
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-12)
    assert sum(p.numel() for p in layer.parameters()) == W.numel() + W2.numel() + bias * (len(W) + 3)


def test_the_names_that_settings_know_without_torch_are_those_that_are_built():
    assert tuple(ACTIVATIONS) == _choices.ACTIVATIONS
