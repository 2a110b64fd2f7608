"""Products by oneDNN are torch's, values and gradients; it is taken where it is faster, and for nothing else."""

import pytest
import torch
import torch.nn.functional as F

from chainrule.kernels import machine
from chainrule.layers import product
from chainrule.layers.linear import linear

has_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")


@pytest.fixture
def onednn_is_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "onednn_speedup", lambda: 2.0)


@has_onednn
@pytest.mark.usefixtures("onednn_is_fast")
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("shape", [(96, 128, 100), (3, 40, 128, 384), (1, 2048, 33, 65)])
def test_values_and_gradients_are_torchs(shape: tuple[int, ...], has_bias: bool, monkeypatch):
    *rows, width, outputs = shape
    x, weight = torch.randn(*rows, width, requires_grad=True), torch.randn(outputs, width, requires_grad=True)
    bias = torch.randn(outputs, requires_grad=True) if has_bias else None
    given = [each for each in (x, weight, bias) if each is not None]
    upstream = torch.randn(*rows, outputs)
    doubled = [each.detach().double().requires_grad_() for each in given]
    expected = F.linear(*doubled)
    monkeypatch.setattr(F, "linear", None)  # it must not be asked
    found = linear(x, weight, bias)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-4)
    gradients = torch.autograd.grad(found, given, upstream)
    for ours, theirs in zip(gradients, torch.autograd.grad(expected, doubled, upstream.double()), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-3)
    with torch.no_grad():
        assert torch.equal(linear(x, weight, bias), found)


@has_onednn
@pytest.mark.usefixtures("onednn_is_fast")
def test_a_gradient_comes_in_any_layout_and_goes_only_where_it_is_wanted():
    x, weight = torch.randn(64, 256), torch.randn(128, 256, requires_grad=True)
    y = linear(x, weight)
    y.t().sum().backward()  # a gradient whose elements all share one place in memory
    torch.testing.assert_close(weight.grad, x.sum(0).expand_as(weight), rtol=1e-5, atol=1e-4)
    assert x.grad is None


@pytest.mark.parametrize(
    ("speedup", "rows", "dtype", "is_for_it"),
    [
        (2.0, 1024, torch.float32, True),
        (1.1, 1024, torch.float32, False),
        (0.0, 1024, torch.float32, False),
        (2.0, 4, torch.float32, False),
        (2.0, 1024, torch.float64, False),
        (2.0, 1024, torch.bfloat16, False),
    ],
)
def test_it_is_for_large_products_in_float32_where_it_is_clearly_faster(speedup, rows, dtype, is_for_it, monkeypatch):
    monkeypatch.setattr(product, "onednn_speedup", lambda: speedup)
    x, weight = torch.ones(rows, 64, dtype=dtype), torch.ones(64, 64, dtype=dtype)
    assert product.is_for_onednn(x, weight) == is_for_it
    with torch.autocast("cpu", torch.bfloat16):
        assert not product.is_for_onednn(x, weight)


def test_a_build_without_either_library_never_takes_it(monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert machine.onednn_speedup.__wrapped__() == 0.0
