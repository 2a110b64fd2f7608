"""What people write with values, against the same in torch: operators, reductions, indexing, broadcasting."""

import numpy as np
import pytest
import torch

from chainrule.tape.attention import Attention
from chainrule.tape.check import check_gradients
from chainrule.tape.losses import Softmax
from chainrule.tape.operators import MODULES
from chainrule.tape.tape import Module, Parameter, Tape, Value
from tests.tape.cases import draw

PAIRS = [((), ()), ((3,), ()), ((), (3,)), ((2, 3), (3,)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((2, 3), (2, 3)),
         ((4, 1, 3), (2, 1)), ((1,), (4, 2, 3)), ((0, 3), (3,)), ((2, 0), (2, 1)), ((1, 1), (0, 0))]  # fmt: skip


def compare(function, *arrays, of_torch=None):
    """`function` of values and of tensors: the results and all gradients."""
    values = [Parameter(each) for each in arrays]
    output = function(*values)
    tensors = [torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in arrays]
    theirs = (of_torch or function)(*tensors)
    assert output.shape == theirs.shape
    np.testing.assert_allclose(output.array, theirs.detach().numpy(), rtol=1e-12, atol=1e-12)
    weights = np.random.default_rng(0).normal(size=output.shape)
    output.backward(weights)
    theirs.backward(torch.tensor(weights))
    for value, tensor in zip(values, tensors, strict=True):
        np.testing.assert_allclose(value.gradient, tensor.grad.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shapes", PAIRS, ids=str)
@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: a * b,
        lambda a, b: a / b,
        lambda a, b: (a * a) ** b,
        lambda a, b: (a - b) * (a + b) / (a * b) - a**3,
    ],
    ids=["add", "subtract", "multiply", "divide", "power", "all"],
)
def test_arithmetic_of_two_values_that_are_broadcast(function, shapes):
    compare(function, *(draw(*shape, seed=number) for number, shape in enumerate(shapes)))


@pytest.mark.parametrize(
    "function",
    [
        lambda a: 2 + a - 3,
        lambda a: 2 - a * 0.5,
        lambda a: 3 / a,
        lambda a: -a,
        lambda a: a**2,
        lambda a: a**-1,
        lambda a: a**0,
        lambda a: (a * a) ** 0.5,
        lambda a: 2**a,
        lambda a: (a * a).log(),
        lambda a: a.exp(),
        lambda a: a.tanh() + a.sigmoid() * a.relu(),
        lambda a: a / a.sum(-1, keepdims=True),
        lambda a: a[0] + a[1:],
        lambda a: a[:, [0, 0, 2]] * a[..., :1],
        lambda a: a[a.shape[0] - 1, -1],
        lambda a: a.reshape(3, 2) @ a,
        lambda a: a @ a.T,
        lambda a: a[None] @ a.T[None],
    ],
)
def test_expressions_read_as_in_torch(function):
    compare(function, draw(2, 3))


@pytest.mark.parametrize("entries", [[2, -1, 3], [True, False, True]])
def test_whole_numbers_and_bools_on_either_side(entries):
    compare(lambda a: a * np.array(entries) + 1, draw(3), of_torch=lambda a: a * torch.tensor(entries) + 1)
    compare(lambda a: np.array(entries) - a, draw(3), of_torch=lambda a: torch.tensor(entries).double() - a)
    compare(lambda a: 2 / a + a**2, [1, -2, 4])


def test_an_array_on_the_left_makes_one_value():
    product = np.array([[1.0, 2.0]]) @ Parameter([3.0, 4.0])
    assert isinstance(product, Value)
    np.testing.assert_array_equal(product.array, [11.0])


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
def test_reductions_with_axes(name, axis, keepdims):
    theirs = {"max": "amax", "min": "amin"}.get(name, name)
    every = (0, 1, 2) if axis is None else axis
    compare(
        lambda a: getattr(a, name)(axis, keepdims),
        draw(2, 3, 4),
        of_torch=lambda a: getattr(a, theirs)(every, keepdim=keepdims),
    )


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_the_largest_of_equal_entries_share_the_gradient(axis):
    every = (0, 1) if axis is None else axis
    compare(lambda a: a.max(axis), [[1, 2, 2], [2, 0, 2]], of_torch=lambda a: a.amax(every))


@pytest.mark.parametrize("base", [0.0, 2.0, -1.5])
@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0])
def test_powers_at_their_corners(base, exponent):
    compare(lambda a: a**exponent, [base])
    if base >= 0:
        compare(lambda a, b: a**b, [base], [exponent])


class Built(Module):
    """A module made of others, for the gradient checker."""

    def __init__(self, function):
        self.forward = function


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: ((a @ b).exp() / (a @ b).exp().sum(-1, keepdims=True)).log().mean(),
        lambda a, b: (a[:, None] - b.T[None]) ** 2,
        lambda a, b: (a.max(1, keepdims=True) * b[0, :2] + a[0, 1]).tanh(),
    ],
)
def test_the_gradient_checker_takes_a_module_made_of_others(function):
    check_gradients(Built(function), draw(2, 3), draw(3, 4))


def test_softmax_regression_by_operators_learns_as_in_torch():
    """Some steps of gradient descent, written as one would in micrograd or torch."""
    x, y = draw(20, 3), np.eye(4)[np.random.default_rng(0).integers(0, 4, 20)]
    weight, bias = Parameter(np.zeros((3, 4))), Parameter(np.zeros(4))
    theirs = [torch.zeros(3, 4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)]
    for _ in range(5):
        scores = x @ weight + bias
        loss = -(y * (scores - scores.exp().sum(1, keepdims=True).log())).sum() / len(x)
        loss.backward()
        for each in (weight, bias):
            each.array -= 0.5 * each.gradient
            each.gradient = None
        theirs = [each.detach().requires_grad_() for each in theirs]
        mean = torch.nn.functional.cross_entropy(torch.tensor(x) @ theirs[0] + theirs[1], torch.tensor(y))
        mean.backward()
        np.testing.assert_allclose(loss.array, mean.detach(), rtol=1e-12)
        theirs = [each - 0.5 * each.grad for each in theirs]
    np.testing.assert_allclose(weight.array, theirs[0].detach(), rtol=1e-10)


def test_the_expression_of_micrograd_gives_its_published_numbers():
    a, b = Parameter(-4.0), Parameter(2.0)
    c, d = a + b, a * b + b**3
    c += c + 1
    c += 1 + c + (-a)
    d += d * 2 + (b + a).relu()
    d += 3 * d + (b - a).relu()
    e = c - d
    f = e**2
    g = f / 2.0
    g += 10.0 / f
    g.backward()
    assert round(float(g), 4) == 24.7041
    assert round(float(a.gradient), 4) == 138.8338
    assert round(float(b.gradient), 4) == 645.5773


def test_attention_by_operators_is_the_module():
    """With a causal mask and padding, two heads: softmax(q kᵀ / √d + mask) v."""
    batch, time, heads, width = 2, 4, 2, 3
    is_word = np.array([[True] * 4, [True, True, True, False]])[:, None, None]
    hidden = np.where(np.tril(np.ones((time, time), bool)) & is_word, 0.0, -np.inf)
    gradients = []
    for by_module in (True, False):
        x, mix = Parameter(draw(batch, time, heads * width)), Parameter(draw(heads * width, 3 * heads * width))
        joined = x @ mix
        q, k, v = (joined[..., each * heads * width : (each + 1) * heads * width] for each in range(3))
        if by_module:
            mixed = Attention(heads)(q, k, v, is_word)
        else:
            q, k, v = (each.reshape(batch, time, heads, width).transpose(0, 2, 1, 3) for each in (q, k, v))
            weights = Softmax()(q @ k.transpose(0, 1, 3, 2) / width**0.5 + hidden)
            mixed = (weights @ v).transpose(0, 2, 1, 3).reshape(batch, time, heads * width)
        (mixed * mixed).sum().backward()
        gradients.append((mixed.array, x.gradient, mix.gradient))
    for ours, theirs in zip(*gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_every_operator_has_its_module():
    x = Tape().value([[1.0, 2.0], [3.0, 4.0]], needs_gradient=True)
    done = [x + x, x - x, x * x, x / x, x**x, x @ x, -x, x[0], x.exp(), x.log(), x.sum(), x.mean(), x.max(),
            x.reshape(4), x.T, x.sigmoid(), x.tanh(), x.relu()]  # fmt: skip
    assert {type(node).__name__ for node in x.tape.nodes} == {each.__name__ for each in MODULES.values()}
    assert len(done) == len(MODULES)
