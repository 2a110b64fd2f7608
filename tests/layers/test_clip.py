"""Row 12 is in tests/spec; here, what else may come."""

import pytest
import torch
from torch import nn

from chainrule.layers.clip import clip_by_global_norm


def parameters(scale: float = 1.0, dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(3)
    made = [nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in ((4, 3), (7,), (2, 2, 2))]
    for each in made:
        each.grad = scale * torch.randn(each.shape, generator=generator, dtype=dtype)
    return made


@pytest.mark.parametrize("scale", [1e-4, 0.1, 1.0, 1e6])
@pytest.mark.parametrize("limit", [0.25, 1.0, 40.0])
def test_it_equals_torch(scale, limit):
    ours, theirs = parameters(scale), parameters(scale)
    norm = clip_by_global_norm(ours, limit)
    assert norm == pytest.approx(float(nn.utils.clip_grad_norm_(theirs, limit)), rel=1e-6)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-6, atol=0)


def test_a_sparse_gradient_is_clipped_as_the_same_one_dense():
    table, dense = nn.Parameter(torch.zeros(6, 2)), parameters()
    rows, values = torch.tensor([[4, 1, 4]]), torch.tensor([[3.0, 0.0], [1.0, 2.0], [1.0, -4.0]])
    table.grad = torch.sparse_coo_tensor(
        rows, values, (6, 2), check_invariants=True
    )  # row 4 comes twice: its gradients add up
    like, others = nn.Parameter(torch.zeros(6, 2)), parameters()
    like.grad = table.grad.to_dense()
    norm = clip_by_global_norm([table, *dense], 0.5)
    assert norm == pytest.approx(float(nn.utils.clip_grad_norm_([like, *others], 0.5)), rel=1e-6)
    torch.testing.assert_close(table.grad.to_dense(), like.grad)
    torch.testing.assert_close(dense[0].grad, others[0].grad)


def test_a_limit_of_zero_leaves_all_as_it_is():
    ours, before = parameters(100.0), [each.grad.clone() for each in parameters(100.0)]
    assert clip_by_global_norm(ours, 0.0) == pytest.approx(float(torch.cat([g.flatten() for g in before]).norm()))
    assert all(torch.equal(each.grad, gradient) for each, gradient in zip(ours, before, strict=True))


def test_parameters_without_a_gradient_do_not_count():
    assert clip_by_global_norm([nn.Parameter(torch.ones(3))], 1.0) == 0.0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nonsense_is_told_by_the_norm(value):
    ours = parameters()
    ours[1].grad[2] = value
    norm = clip_by_global_norm(ours, 0.0)
    assert norm == value or norm != norm
