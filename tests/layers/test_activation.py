"""Activations and their gradients by kernels equal torch's own."""

import pytest
import torch
import torch.nn.functional as F

from chainrule.layers.activation import ACTIVATIONS

REFERENCES = {
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu-squared": lambda x: F.relu(x).square(),
}


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("name", REFERENCES)
def test_values_and_gradients_equal_torchs_own(name: str):
    generator = torch.Generator().manual_seed(0)
    x = 4 * torch.randn(3, 70, 300, generator=generator)
    x.view(-1)[:8] = torch.tensor([0.0, -0.0, 1e-20, 9.0, -9.0, 100.0, -100.0, 1e6])
    upstream = torch.randn(x.shape, generator=generator)
    found = []
    for function, inputs in ((ACTIVATIONS[name], x.clone()), (REFERENCES[name], x.double())):
        y = function(inputs.requires_grad_())
        y.backward(upstream.to(y.dtype))
        found.append((y.detach().double(), inputs.grad.double()))
    for mine, reference in zip(*found, strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-6, atol=3e-6)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("name", REFERENCES)
def test_in_bfloat16_they_equal_torchs_own_in_double_precision_rounded(name: str):
    """For every number below 10⁹ that there is, and for every NaN."""
    x = torch.arange(-(1 << 15), 1 << 15).to(torch.int16).view(torch.bfloat16)
    mine, reference = x.clone().requires_grad_(), x.double().requires_grad_()
    y, expected = ACTIVATIONS[name](mine), REFERENCES[name](reference)
    y.sum().backward()
    expected.sum().backward()
    assert y.dtype == mine.grad.dtype == torch.bfloat16
    is_usual = x.abs() < 1e9  # beyond that, cubes have no room in 32 bits
    for found, wanted in ((y, expected), (mine.grad, reference.grad)):
        torch.testing.assert_close(found[is_usual].double(), wanted[is_usual], rtol=2**-8, atol=1e-4)
    assert y[x.isnan()].isnan().all()


@pytest.mark.parametrize("name", REFERENCES)
def test_a_transposed_input_is_read_in_its_order(name: str):
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(1))
    mine, reference = x.clone().requires_grad_(), x.clone().requires_grad_()
    upstream = torch.arange(35.0).view(7, 5)
    ACTIVATIONS[name](mine.t()).backward(upstream)
    REFERENCES[name](reference.t()).backward(upstream)
    torch.testing.assert_close(mine.grad, reference.grad)


@pytest.mark.parametrize("name", REFERENCES)
def test_nan_stays_nan(name: str):
    x = torch.tensor([1.0, torch.nan], requires_grad=True)
    assert ACTIVATIONS[name](x).isnan().tolist() == [False, True]
