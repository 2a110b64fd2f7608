import pytest
import torch

from chainrule.layers.norm import RMSNorm


@pytest.mark.parametrize("shape", [(7, 16), (2, 3, 16), (2, 4, 3, 16)])
def test_values_and_gradients_equal_torchs_own(shape):
    torch.manual_seed(0)
    x, upstream = torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)
    ours, theirs = RMSNorm(16, 1e-5).double(), torch.nn.RMSNorm(16, eps=1e-5).double()
    gain = torch.randn(16, dtype=torch.float64)
    found = []
    for norm in (ours, theirs):
        norm.weight.data.copy_(gain)
        inputs = x.clone().requires_grad_()
        norm(inputs).backward(upstream)
        found.append((norm(x), inputs.grad, norm.weight.grad))
    for mine, reference in zip(*found, strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-12, atol=1e-12)


def test_gradients_agree_with_finite_differences():
    torch.manual_seed(1)
    norm = RMSNorm(5, 1e-2).double()
    x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda x, gain: torch.func.functional_call(norm, {"weight": gain}, x), (x, norm.weight)
    )


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("shape", [(7, 16), (200, 16), (2, 4, 33, 16)])
def test_kernels_equal_the_same_in_64_bits(shape):
    torch.manual_seed(2)
    x, upstream, gain = torch.randn(shape), torch.randn(shape), torch.randn(16)
    found = []
    for dtype in (torch.float32, torch.float64):
        norm, inputs = RMSNorm(16).to(dtype), x.to(dtype, copy=True).requires_grad_()
        norm.weight.data.copy_(gain)
        y = norm(inputs)
        y.backward(upstream.to(dtype))
        found.append([each.detach().double() for each in (y, inputs.grad, norm.weight.grad)])
    for mine, reference in zip(*found, strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-5, atol=1e-5)
