"""The tape itself: values used twice, several tapes and threads, deep graphs, memory, and what is refused."""

import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from chainrule.tape.modules import Add, Dot, Linear, Multiply, Scale, Sigmoid, Slice, Tanh
from chainrule.tape.tape import Module, Parameter, Tape


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


def test_what_is_computed_from_parameters_alone_gets_its_gradient():
    """w · x + w · w"""
    w, tape = Parameter([1.0, 2.0]), Tape()
    x = tape.value([3.0, 4.0])
    tape.backward(Add()(Dot()(w, x), Dot()(w, w)))
    np.testing.assert_allclose(w.gradient, [5.0, 8.0])


def test_a_slice_of_a_weight_gets_its_gradient():
    weight, tape = Parameter(np.ones((3, 2))), Tape()
    top = Slice(0, 1, 0)(weight)
    tape.backward(Linear()(tape.value([[5.0, 7.0]]), top))
    np.testing.assert_allclose(weight.gradient, [[5.0, 7.0], [0.0, 0.0], [0.0, 0.0]])


def test_parts_that_are_computed_from_parameters_meet_in_any_order():
    """Two of them meet first, then a third, then an input, and one of them once more afterwards."""
    v, w, tape = Parameter(2.0), Parameter(3.0), Tape()
    square, product, cube = v * v, v * w, w * w * w
    both = square + product
    end = (both + cube) * tape.value(10.0) + product
    assert len(tape.nodes) == 8
    tape.backward(end)  # 10 v² + 10 v w + 10 w³ + v w
    np.testing.assert_allclose(v.gradient, 10 * 2 * 2 + 11 * 3)
    np.testing.assert_allclose(w.gradient, 11 * 2 + 10 * 3 * 9)


def test_without_any_tape_a_value_walks_back_from_itself():
    w = Parameter([1.0, 2.0])
    (w * w).sum().backward()
    np.testing.assert_allclose(w.gradient, [2.0, 4.0])
    tape = Tape()
    tape.backward((w * w).sum())
    np.testing.assert_allclose(w.gradient, [4.0, 8.0])


def test_where_nothing_needs_a_gradient_nothing_is_written_down():
    weight = Parameter(np.ones((2, 2)))
    weight.needs_gradient = False
    for y in (Linear()([[1.0, 1.0]], weight), Linear()([[1.0, 1.0]], np.ones((2, 2)))):
        np.testing.assert_allclose(y.array, [[2.0, 2.0]])
        assert not y.needs_gradient
        assert y.tape is None


def test_a_value_from_parameters_stays_on_the_tape_that_used_it():
    w = Parameter([1.0])
    doubled = w * 2.0
    doubled * Tape().value([1.0])
    with pytest.raises(ValueError, match=r"two tapes .* compute it again for another"):
        doubled * Tape().value([1.0])


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


def test_two_walks_give_twice_the_gradient_as_in_torch():
    """x² at 3: 6 and 6. Gradients of values in between are those of the last walk."""
    tape = Tape()
    x = tape.value(3.0, needs_gradient=True)
    square = x * x
    end = square * 1.0
    for walk in (1, 2):
        tape.backward(end, keep=True)
        assert float(x.gradient) == 6 * walk
        assert float(square.gradient) == 1
    theirs = torch.tensor(3.0, requires_grad=True)
    square = theirs**2
    for _ in range(2):
        square.backward(retain_graph=True)
    assert float(theirs.grad) == float(x.gradient)


def test_a_second_walk_of_what_was_freed_is_refused():
    tape = Tape()
    x = tape.value(3.0, needs_gradient=True)
    hidden = x * x
    first, second = hidden * 2.0, hidden * 3.0
    tape.backward(first)
    for end in (first, second, hidden, hidden + 1):
        with pytest.raises(ValueError, match="walked back before, and freed; pass keep=True to the first backward"):
            tape.backward(end)
    assert float(x.gradient) == 12  # nothing was added


def test_walks_of_parts_that_share_no_module_need_no_keep():
    tape = Tape()
    x = tape.value(3.0, needs_gradient=True)
    first, second = x * x, x * 5.0
    tape.backward(first)
    tape.backward(second)
    assert float(x.gradient) == 11
    assert not tape.nodes


@pytest.mark.parametrize(
    ("gradient", "found"), [([1.0, 1.0, 1.0], r"\(3,\)"), (1.0, r"\(\)"), ([[1.0, 1.0]], r"\(1, 2\)")]
)
def test_a_gradient_of_another_shape_is_refused(gradient, found):
    tape = Tape()
    x = tape.value([1.0, 2.0], needs_gradient=True)
    with pytest.raises(ValueError, match=rf"the gradient must have the value's shape \(2,\), got {found}"):
        tape.backward(Tanh()(x), gradient)
    assert x.gradient is None


def test_a_walk_from_what_needs_no_gradient_is_refused():
    tape = Tape()
    with pytest.raises(ValueError, match="nothing that this value was computed from needs a gradient"):
        tape.backward(Tanh()(tape.value([1.0])))
    with pytest.raises(ValueError, match="nothing to walk back"):
        Tanh()([1.0]).backward()


def test_gradients_have_the_precision_of_their_values():
    weight = Parameter(np.ones(2, np.float32))
    (weight * np.array([1.0, 2.0])).sum().backward()
    assert weight.gradient.dtype == np.float32


def test_scaling_the_gradient_of_one_parameter_in_place_changes_no_other():
    a, b, c = (Parameter([1.0, 2.0]) for _ in range(3))
    (a + b + c.reshape(2, 1).T[0]).backward()
    for scaled in (a, b, c):
        scaled.gradient *= 3
    for each in (a, b, c):
        np.testing.assert_array_equal(each.gradient, [3.0, 3.0])


def test_a_number_can_be_read_as_one():
    assert float(Parameter([1.0, 2.0]).sum()) == 3.0


def test_arrays_and_numbers_are_taken_as_constants():
    weight = Parameter([[1, 2], [3, 4]])
    Add()(Linear()(np.array([5.0, 6.0]), weight), 1).backward([1, 10])
    np.testing.assert_allclose(weight.gradient, [[5, 6], [50, 60]])


def test_a_walk_that_keeps_can_be_looked_at():
    tape = Tape()
    x = tape.value(np.array([1.0]), needs_gradient=True)
    middle = Scale(2.0)(x)
    tape.backward(Scale(3.0)(middle), keep=True)
    assert len(tape.nodes) == 2
    np.testing.assert_allclose(middle.gradient, [3.0])
