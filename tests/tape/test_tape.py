"""The tape itself: values used twice, several tapes and threads, deep graphs, memory, and what is refused."""

import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from chainrule.tape.modules import Add, Linear, Multiply, Scale, Sigmoid, Tanh
from chainrule.tape.tape import Module, Parameter, Tape, Value


def test_a_value_that_is_used_twice_gets_both_contributions():
    tape = Tape()
    x = tape.value(np.array([2.0, 3.0]), needs_gradient=True)
    square = Multiply()(x, x)
    tape.backward(Add()(square, x))  # x² + x
    np.testing.assert_allclose(x.gradient, [5.0, 7.0])


def test_three_uses_do_not_write_into_each_others_arrays():
    """Add hands one and the same array to both its inputs."""
    tape = Tape()
    x, y = (tape.value(np.array([each]), needs_gradient=True) for each in (2.0, 5.0))
    tape.backward(Add()(Add()(Add()(x, y), x), x))
    np.testing.assert_allclose(x.gradient, [3.0])
    np.testing.assert_allclose(y.gradient, [1.0])


def test_one_module_may_be_applied_many_times():
    tape, module = Tape(), Sigmoid()
    x = tape.value(np.array([0.3]), needs_gradient=True)
    once = module(x)
    twice = module(once)
    tape.backward(twice)
    a = 1 / (1 + np.exp(-0.3))
    b = 1 / (1 + np.exp(-a))
    np.testing.assert_allclose(x.gradient, b * (1 - b) * a * (1 - a))
    assert not vars(module)


def test_gradients_of_parameters_add_up_over_tapes_until_they_are_cleared():
    weight = Parameter(np.ones((1, 2)))
    for row in ([1.0, 2.0], [10.0, 20.0]):
        tape = Tape()
        tape.backward(Linear()(tape.value(np.array([row])), weight))
    np.testing.assert_allclose(weight.gradient, [[11.0, 22.0]])


def test_what_does_not_lead_to_the_end_gets_nothing():
    tape = Tape()
    x, y = (tape.value(np.array([1.0]), needs_gradient=True) for _ in range(2))
    Tanh()(y)
    tape.backward(Tanh()(x))
    assert x.gradient is not None
    assert y.gradient is None


def test_inputs_that_need_no_gradient_get_none_and_cost_no_node():
    tape = Tape()
    x = tape.value(np.array([1.0]))
    Tanh()(x)
    assert not tape.nodes


def test_without_a_tape_nothing_is_written_down():
    weight = Parameter(np.ones((2, 2)))
    y = Linear()(Value(np.ones((1, 2))), weight)
    np.testing.assert_allclose(y.array, [[2.0, 2.0]])
    assert not y.needs_gradient


def test_a_graph_deeper_than_the_recursion_limit():
    tape = Tape()
    x = value = tape.value(np.array([1.0]), needs_gradient=True)
    depth = 5 * sys.getrecursionlimit()
    for _ in range(depth):
        value = Scale(1.0001)(value)
    tape.backward(value)
    np.testing.assert_allclose(x.gradient, [1.0001**depth], rtol=1e-9)


def test_tapes_in_threads_do_not_mix():
    def differentiate(number: int) -> float:
        tape = Tape()
        x = value = tape.value(np.array([float(number)]), needs_gradient=True)
        for _ in range(200):
            value = Add()(value, x)
        tape.backward(Multiply()(value, x))  # 201 x²
        return float(x.gradient[0])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(differentiate, range(64))) == [402.0 * number for number in range(64)]


class Spy(Module):
    """Counts how many arrays of its kind are alive when the walk passes."""

    alive: list[weakref.ref]
    seen: list[int]

    def forward(self, a):
        self.kept = np.array(a)  # something big that only this node holds
        Spy.alive.append(weakref.ref(self.kept))
        return a + 1

    def backward(self, gradient, output, a):
        gc.collect()
        Spy.seen.append(sum(each() is not None for each in Spy.alive))
        return (gradient,)


def test_what_a_node_holds_is_freed_as_soon_as_the_walk_has_passed():
    Spy.alive, Spy.seen = [], []
    tape = Tape()
    value = tape.value(np.zeros(3), needs_gradient=True)
    for _ in range(6):
        value = Spy()(value)
    tape.backward(value)
    assert Spy.seen == [6, 5, 4, 3, 2, 1]


def test_values_of_two_tapes_are_refused():
    one, two = Tape(), Tape()
    with pytest.raises(ValueError, match="two tapes"):
        Add()(one.value(np.ones(1)), two.value(np.ones(1)))
    with pytest.raises(ValueError, match="not computed on this tape"):
        one.backward(two.value(np.ones(1)))


def test_a_walk_that_keeps_can_be_looked_at():
    tape = Tape()
    x = tape.value(np.array([1.0]), needs_gradient=True)
    middle = Scale(2.0)(x)
    tape.backward(Scale(3.0)(middle), keep=True)
    assert len(tape.nodes) == 2
    np.testing.assert_allclose(middle.gradient, [3.0])
