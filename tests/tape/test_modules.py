"""Every module by itself: its gradients against finite differences, and all it gives against torch."""

import numpy as np
import pytest
import torch

from chainrule.tape.check import check_gradients
from chainrule.tape.modules import Tanh
from chainrule.tape.tape import Tape
from tests.tape.cases import CASES, X, every_module


def test_every_module_of_the_package_has_a_case():
    assert every_module() == {type(case.module) for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_are_those_of_finite_differences(case):
    assert check_gradients(case.module, *case.inputs, tolerance=1e-6).error < 1e-6


@pytest.mark.parametrize("case", CASES, ids=str)
def test_forward_and_backward_are_those_of_torch(case):
    tape = Tape()
    values = [tape.value(each, needs_gradient=each.dtype.kind == "f") for each in case.inputs]
    output = case.module(*values)
    tensors = [torch.tensor(each, requires_grad=each.dtype.kind == "f") for each in case.inputs]
    theirs = case.torch(*tensors)
    np.testing.assert_allclose(output.array, theirs.detach().numpy(), rtol=1e-10, atol=1e-10)
    weights = np.random.default_rng(0).normal(size=output.shape)
    tape.backward(output, weights)
    theirs.backward(torch.tensor(weights))
    for value, tensor in zip(values, tensors, strict=True):
        if tensor.grad is None:
            assert value.gradient is None
        else:
            np.testing.assert_allclose(value.gradient, tensor.grad.numpy(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_in_32_bits_everything_stays_in_32_bits(case):
    tape = Tape()
    inputs = [each.astype(np.float32) if each.dtype.kind == "f" else each for each in case.inputs]
    values = [tape.value(each, needs_gradient=each.dtype.kind == "f") for each in inputs]
    output = case.module(*values)
    assert output.array.dtype == np.float32
    tape.backward(output, np.ones(output.shape, np.float32))
    assert all(value.gradient.dtype == np.float32 for value in values if value.gradient is not None)


class Wrong(Tanh):
    def backward(self, gradient, output, a):
        (found,) = super().backward(gradient, output, a)
        found[1, 2, 3] *= 1.01
        return (found,)


def test_a_wrong_backward_is_found_and_its_entry_named():
    with pytest.raises(AssertionError, match=r"Wrong: gradient of input 0 at \[1, 2, 3\]: backward gives .* relative"):
        check_gradients(Wrong(), X)
