"""Every module by itself: its gradients against finite differences, and all it gives against torch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from chainrule.tape.arithmetic import Divide, Log, Multiply, Power
from chainrule.tape.attention import Attention
from chainrule.tape.check import check_gradients
from chainrule.tape.losses import CrossEntropy, LogSoftmax, Softmax, SoftmaxCrossEntropy
from chainrule.tape.modules import GELU, Embedding, Sigmoid, SiLU, SwiGLU, Tanh
from chainrule.tape.shapes import Concatenate, Reshape, Slice
from chainrule.tape.tape import Tape, Value
from tests.tape.cases import CASES, EMPTY, X, every_module


def test_every_module_of_the_package_has_a_case():
    assert every_module() == {type(case.module) for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_are_those_of_finite_differences(case):
    assert check_gradients(case.module, *case.inputs, tolerance=1e-6).error < 1e-6


@pytest.mark.parametrize("case", [*CASES, *EMPTY], ids=str)
def test_forward_and_backward_are_those_of_torch(case):
    tape = Tape()
    values = [tape.value(each, needs_gradient=each.dtype.kind == "f") for each in case.inputs]
    output = case.module(*values)
    tensors = [torch.tensor(each, requires_grad=each.dtype.kind == "f") for each in case.inputs]
    theirs = case.torch(*tensors)
    assert output.shape == theirs.shape
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


def run(module, inputs):
    """What a module gives for these, and the gradient of every input that can have one."""
    tape = Tape()
    values = [tape.value(each, needs_gradient=number not in module.discrete) for number, each in enumerate(inputs)]
    output = module(*values)
    tape.backward(output, np.ones(output.shape))
    return output, [value.gradient for value in values]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_whole_numbers_are_taken_as_floats(case):
    whole = [each if each.dtype.kind != "f" else np.ceil(2 * each).astype(int) for each in case.inputs]
    if isinstance(case.module, Power | Log | Divide | CrossEntropy):
        whole = [np.abs(each) + 1 for each in whole]
    real = [each if number in case.module.discrete else each.astype(float) for number, each in enumerate(whole)]
    if isinstance(case.module, Attention):
        whole[3:] = real[3:] = case.inputs[3:]
    ours, gradients = run(case.module, whole)
    same, theirs = run(case.module, real)
    np.testing.assert_array_equal(ours.array, same.array)
    for mine, other in zip(gradients, theirs, strict=True):
        np.testing.assert_array_equal(mine, other)
    constants = case.module(*whole)
    assert constants.array.dtype.kind == "f" or case.module.is_rearrangement
    np.testing.assert_array_equal(constants.array, same.array)


def test_whole_numbers_have_the_precision_of_the_other_inputs():
    single = np.array([0.5, 1.5], np.float32)
    for other in (np.array([2, 3]), [True, False], Value([2, 3]), 3, 2.5):
        assert Multiply()(other, single).array.dtype == np.float32
        assert Multiply()(Tape().value(single), other).array.dtype == np.float32


def test_the_logistic_function_of_whole_numbers():
    np.testing.assert_allclose(Sigmoid()([1, -2, 3]).array, [0.73105858, 0.11920292, 0.95257413], rtol=1e-7)
    np.testing.assert_allclose(SiLU()([1, -2, 3]).array, [0.73105858, -0.23840584, 2.85772238], rtol=1e-7)
    np.testing.assert_allclose(GELU("exact")([1, -2, 3]).array, [0.84134475, -0.04550026, 2.99595031], rtol=1e-7)


def test_ids_stay_ids_when_they_are_sliced_reshaped_and_joined():
    words, table = Tape().value([[1, 0, 2], [2, 2, 1]]), np.eye(3)
    chosen = Reshape(-1)(Concatenate(0)(Slice(0, 2)(words), words[:, 1:]))
    np.testing.assert_array_equal(Embedding()(chosen, table).array, table[[1, 0, 2, 2, 0, 2, 2, 1]])


LARGE = [800.0, -800.0, 1e4, -1e4, 0.0, 1e18, -1e18, 709.0, -745.0, 88.0, -104.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("module", "by_torch"),
    [
        (Sigmoid(), torch.sigmoid),
        (Tanh(), torch.tanh),
        (SiLU(), F.silu),
        (GELU("exact"), F.gelu),
        (GELU(), lambda a: F.gelu(a.double(), approximate="tanh")),
        (SwiGLU(), lambda a: F.silu(a[:5]) * a[5:]),
        (Softmax(), lambda a: a.softmax(-1)),
        (LogSoftmax(), lambda a: a.log_softmax(-1)),
    ],
    ids=["sigmoid", "tanh", "silu", "gelu exact", "gelu", "swiglu", "softmax", "log softmax"],
)
def test_large_inputs_do_not_overflow(module, by_torch, dtype):
    entries = np.array(LARGE[: 10 if isinstance(module, SwiGLU) else None], dtype)
    output, (gradient,) = run(module, [entries])
    tensor = torch.tensor(entries, requires_grad=True)
    theirs = by_torch(tensor)
    theirs.backward(torch.ones_like(theirs))
    exact = {"rtol": 1e-5 if dtype == np.float32 else 1e-12, "atol": 1e-30}
    np.testing.assert_allclose(output.array, theirs.detach().numpy(), **exact)
    np.testing.assert_allclose(gradient, tensor.grad.numpy(), **exact)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gold", [[1.0, 0.0], [0.0, 1.0], [0.25, 0.75]])
def test_cross_entropy_of_a_softmax_of_large_logits_is_exact(gold, dtype):
    """-Σ gold · (a - log Σ exp a), and its gradient softmax(a) - gold."""
    tape = Tape()
    logits = tape.value(np.array([800, 0], dtype), needs_gradient=True)
    loss = CrossEntropy()(np.array(gold, dtype), Softmax()(logits))
    tape.backward(loss)
    assert float(loss.array) == 800 * gold[1]
    np.testing.assert_allclose(logits.gradient, [1 - gold[0], -gold[1]], rtol=1e-6, atol=1e-30)


def test_the_softmax_of_a_masked_entry_is_nothing():
    np.testing.assert_array_equal(Softmax()([0.0, -np.inf, 0.0]).array, [0.5, 0, 0.5])


def test_cross_entropy_counts_nothing_for_what_is_neither_gold_nor_predicted():
    tape = Tape()
    predicted = tape.value([1.0, 0.0], needs_gradient=True)
    loss = CrossEntropy()([1, 0], predicted)
    tape.backward(loss)
    assert float(loss.array) == 0
    np.testing.assert_array_equal(predicted.gradient, [-1, 0])


@pytest.mark.parametrize(
    ("apply", "sentence"),
    [
        (lambda: Embedding()([0, -1], np.eye(3)), "words must be from 0 to 2, got -1"),
        (lambda: Embedding()([0, 3], np.eye(3)), "words must be from 0 to 2, got 3"),
        (lambda: Embedding()([0.0, 1.0], np.eye(3)), "words must be whole numbers, got float64"),
        (lambda: SoftmaxCrossEntropy()(np.eye(3), [0, 1, -1]), "targets must be from 0 to 2, got -1"),
        (lambda: SoftmaxCrossEntropy()(np.eye(3), [0, 1, 3]), "targets must be from 0 to 2, got 3"),
        (lambda: SoftmaxCrossEntropy()(np.eye(3), [0]), r"targets must have the shape \(3,\) .* got \(1,\)"),
        (lambda: CrossEntropy()([0, 1, 2], np.eye(3)), r"gold must have the shape \(3, 3\) .* got \(3,\); for ids use"),
        (lambda: Attention(1)(X, X, X, np.ones((5, 5), int)), "a mask must be bools .* or floats .*, got int64"),
        (lambda: Tanh()(["a"]), "a value must be an array of real numbers, got <U1"),
        (lambda: Tanh()([1j]), "a value must be an array of real numbers, got complex128"),
    ],
)  # fmt: skip
def test_what_would_run_with_a_wrong_result_is_refused(apply, sentence):
    with pytest.raises(ValueError, match=sentence):
        apply()


class Wrong(Tanh):
    def backward(self, gradient, output, a):
        (found,) = super().backward(gradient, output, a)
        found[1, 2, 3] *= 1.01
        return (found,)


def test_a_wrong_backward_is_found_and_its_entry_named():
    with pytest.raises(AssertionError, match=r"Wrong: gradient of input 0 at \[1, 2, 3\]: backward gives .* relative"):
        check_gradients(Wrong(), X)
