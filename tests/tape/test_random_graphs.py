"""Graphs drawn at random, of parameters, inputs and constants, with reuse and several walks, on the tape and in torch;
and the gradients of the same graphs by finite differences.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.tape.arithmetic import Dot
from chainrule.tape.losses import LogSoftmax, Softmax
from chainrule.tape.modules import GELU, Add, Linear, RMSNorm, Sigmoid, SiLU
from chainrule.tape.shapes import Concatenate, Slice
from chainrule.tape.tape import Array, Parameter, Tape, Value

SIDE = 3  # all intermediate values are (SIDE, SIDE), (SIDE,) or a number, so any two can be broadcast


@dataclass(frozen=True)
class Operation:
    """The same function of values and of tensors."""

    arity: int
    ours: Callable[..., Value]
    theirs: Callable[..., torch.Tensor]


def both(arity: int, function: Callable[..., Any]) -> Operation:
    return Operation(arity, function, function)


def square(a: Any) -> Any:
    """As a matrix."""
    return a + np.zeros((SIDE, SIDE)) if isinstance(a, Value) else a + torch.zeros(SIDE, SIDE, dtype=a.dtype)


OPERATIONS = [
    both(2, lambda a, b: a + b),
    both(2, lambda a, b: a - b),
    both(2, lambda a, b: a * b),
    both(2, lambda a, b: a / (b * b + 1)),
    both(2, lambda a, b: (a * a + 1) ** (0.1 * b)),
    both(2, lambda a, b: square(a) @ square(b)),
    both(2, lambda a, b: 0.5 * square(a)[0] @ square(b)),
    both(1, lambda a: 2 - a),
    both(1, lambda a: a.tanh()),
    both(1, lambda a: (0.1 * a).exp()),
    both(1, lambda a: (a * a + 1).log()),
    both(1, lambda a: square(a).T),
    both(1, lambda a: square(a)[1:, 0].sum()),
    both(1, lambda a: square(a)[[0, 0, 2]]),
    both(1, lambda a: square(a).reshape(SIDE * SIDE)[2:5]),
    Operation(1, lambda a: a.mean(), lambda a: a.mean()),
    Operation(1, lambda a: square(a).sum(0), lambda a: square(a).sum(0)),
    Operation(1, lambda a: square(a).mean(1, keepdims=True), lambda a: square(a).mean(1, keepdim=True)),
    Operation(2, lambda a, b: Linear()(square(a), square(b)), lambda a, b: F.linear(square(a), square(b))),
    Operation(2, lambda a, b: Dot()(square(a), b), lambda a, b: (square(a) * b).sum(-1, keepdim=True)),
    Operation(
        2,
        lambda a, b: Slice(1, 4)(Concatenate()(square(a), square(b))),
        lambda a, b: torch.cat([square(a), square(b)], -1)[:, 1:4],
    ),
    Operation(1, lambda a: Softmax()(square(a)), lambda a: square(a).softmax(-1)),
    Operation(1, lambda a: LogSoftmax()(square(a)), lambda a: square(a).log_softmax(-1)),
    Operation(1, Sigmoid(), torch.sigmoid),
    Operation(1, SiLU(), F.silu),
    Operation(1, GELU(), lambda a: F.gelu(a, approximate="tanh")),
    Operation(1, lambda a: RMSNorm()(square(a)), lambda a: F.rms_norm(square(a), (SIDE,), eps=1e-5)),
]


@dataclass(frozen=True)
class Recipe:
    """Leaves (kind, shape), steps (operation, which earlier values), and where walks begin."""

    leaves: list[tuple[str, tuple[int, ...]]]
    steps: list[tuple[int, list[int]]]
    ends: list[int]

    def arrays(self) -> list[Array]:
        generator = np.random.default_rng(len(self.steps))
        return [
            generator.integers(-2, 3, shape) if kind == "whole" else generator.normal(size=shape)
            for kind, shape in self.leaves
        ]

    def build(self, made: list[Any], is_ours: bool) -> list[Any]:
        """All values from the leaves on."""
        values = list(made)
        for number, chosen in self.steps:
            operation = OPERATIONS[number]
            function = operation.ours if is_ours else operation.theirs
            values.append(function(*(values[each % len(values)] for each in chosen[: operation.arity])))
        return values


LEAVES = st.tuples(
    st.sampled_from(["parameter", "parameter", "input", "constant", "whole"]),
    st.sampled_from([(SIDE, SIDE), (SIDE,), (1, SIDE), (SIDE, 1), (1,)]),
)
STEPS = st.tuples(
    st.integers(0, len(OPERATIONS) - 1), st.lists(st.integers(0, 30), min_size=2, max_size=2)
)  # fmt: skip
RECIPES = st.builds(
    Recipe,
    st.lists(LEAVES, min_size=1, max_size=4),
    st.lists(STEPS, min_size=1, max_size=12),
    st.lists(st.integers(0, 30), min_size=1, max_size=3),
)


def on_tape(recipe: Recipe, arrays: list[Array]) -> tuple[Tape, list[Value]]:
    tape = Tape()
    made = {
        "parameter": Parameter,
        "input": lambda array: tape.value(array, needs_gradient=True),
        "constant": tape.value,
        "whole": tape.value,
    }
    return tape, [made[kind](array) for (kind, _), array in zip(recipe.leaves, arrays, strict=True)]


def is_learned(kind: str) -> bool:
    return kind in ("parameter", "input")


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(RECIPES)
def test_several_walks_over_a_random_graph_give_what_torch_gives(recipe: Recipe):
    arrays = recipe.arrays()
    tape, leaves = on_tape(recipe, arrays)
    values = recipe.build(leaves, is_ours=True)
    tensors = [
        torch.tensor(array, dtype=torch.float64, requires_grad=is_learned(kind))
        for (kind, _), array in zip(recipe.leaves, arrays, strict=True)
    ]
    theirs = recipe.build(tensors, is_ours=False)
    for value, tensor in zip(values, theirs, strict=True):
        np.testing.assert_allclose(value.array, tensor.detach(), rtol=1e-9, atol=1e-9)
        assert value.needs_gradient == tensor.requires_grad
    for walk, chosen in enumerate(recipe.ends):
        end, same = values[chosen % len(values)], theirs[chosen % len(values)]
        if not end.needs_gradient or isinstance(end, Parameter):
            continue
        weights = np.random.default_rng(walk).normal(size=end.shape)
        tape.backward(end, weights, keep=True)
        same.backward(torch.tensor(weights), retain_graph=True)
        for value, tensor in zip(leaves, tensors, strict=True):
            if tensor.grad is None:
                assert value.gradient is None
            else:
                np.testing.assert_allclose(value.gradient, tensor.grad, rtol=1e-9, atol=1e-9)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(RECIPES)
def test_gradients_of_a_random_graph_are_those_of_finite_differences(recipe: Recipe):
    arrays = recipe.arrays()
    _, leaves = on_tape(recipe, arrays)
    end = recipe.build(leaves, is_ours=True)[-1]
    if not end.needs_gradient:
        return
    weights = np.random.default_rng(0).normal(size=end.shape)
    Add()(end, 0.0).backward(weights)

    def objective(number: int, change: Array) -> float:
        moved = [each + change if index == number else each for index, each in enumerate(arrays)]
        return float((recipe.build(on_tape(recipe, moved)[1], is_ours=True)[-1].array * weights).sum())

    for number, ((kind, shape), leaf) in enumerate(zip(recipe.leaves, leaves, strict=True)):
        if not is_learned(kind):
            continue
        direction = np.random.default_rng(number).normal(size=shape)
        slope = (objective(number, 1e-5 * direction) - objective(number, -1e-5 * direction)) / 2e-5
        found = 0.0 if leaf.gradient is None else float((leaf.gradient * direction).sum())
        np.testing.assert_allclose(found, slope, rtol=1e-5, atol=1e-5 * max(1.0, abs(objective(number, 0 * direction))))
