"""Splitting into heads by a kernel equals the same in torch's operations, with its gradients."""

import pytest
import torch
from torch import Tensor

from chainrule.layers.heads import split_heads
from chainrule.layers.positions import rotary_angles, rotate

Parts = tuple[Tensor, Tensor, Tensor]


def split_in_steps(stacked: Tensor, num_heads: int, norms, rotation) -> Parts:
    others = (stacked.shape[2] - num_heads) // 2
    query, key, value = (each.transpose(1, 2) for each in stacked.split([num_heads, others, others], 2))
    if norms is not None:
        shape = query.shape[-1:]
        query, key = (torch.rms_norm(x, shape, gain, norms[2]) for x, gain in zip((query, key), norms, strict=False))
    return rotate(query, *rotation), rotate(key, *rotation), value


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("num_heads", "others"), [(4, 4), (4, 2), (3, 1)])
@pytest.mark.parametrize("is_normalised", [True, False])
def test_values_and_gradients_equal_those_of_single_steps(num_heads: int, others: int, is_normalised: bool):
    torch.manual_seed(0)
    batch, time, width = 3, 50, 16
    given = torch.randn(batch, time, num_heads + 2 * others, width), torch.randn(width), torch.randn(width)
    rotation = rotary_angles(3, time, width, 1000.0, torch.device("cpu"))
    upstream = [torch.randn(batch, count, time, width) for count in (num_heads, others, others)]
    found = []
    for function in (split_heads, split_in_steps):
        stacked, query_gain, key_gain = (each.clone().requires_grad_() for each in given)
        norms = (query_gain, key_gain, 1e-5) if is_normalised else None
        parts = function(stacked, num_heads, norms, rotation)
        torch.autograd.backward(parts, upstream)
        gains = [query_gain.grad, key_gain.grad] if is_normalised else []
        found.append([*parts, stacked.grad, *gains])
    for mine, reference in zip(*found, strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-5, atol=2e-5)
