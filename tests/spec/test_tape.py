"""Rows 24 to 26: automatic differentiation by modules, the procedural method, computation graphs."""

from typing import Any

import numpy as np
import pytest
import torch

from chainrule import registry
from chainrule.tape.check import check_gradients
from chainrule.tape.losses import CrossEntropy, Softmax
from chainrule.tape.models import MODELS
from chainrule.tape.modules import Linear, Sigmoid
from chainrule.tape.optimizers import AdamW, minibatch_sgd, warmup_cosine
from chainrule.tape.tape import Array, Parameter, Tape
from chainrule.tape.unrolled import count_nodes
from tests.tape.cases import CASES, every_module


def test_row_24_every_module_has_a_backward_that_finite_differences_confirm():
    checked = {type(case.module) for case in CASES if check_gradients(case.module, *case.inputs).error <= 1e-6}
    assert checked == every_module()


@pytest.mark.parametrize(("architecture", "size"), [("mlp", "tiny"), ("elman", "tiny"), ("transformer", "gpt2-tiny")])
def test_row_24_whole_models_learn_on_the_tape(architecture: str, size: str):
    """One batch by heart, from the weights that torch begins with."""
    torch.manual_seed(0)
    module = registry.find("chainrule.models", architecture, "model")
    theirs = module.Model(module.SIZES[size], 11, 10)
    model = MODELS[architecture](
        theirs.config, {name: each.detach().numpy().copy() for name, each in theirs.named_parameters()}
    )
    words = np.random.default_rng(0).integers(0, 11, (3, 9))
    optimizer, losses = AdamW(model.parameters.values(), 0.01), []
    for step in range(150):
        tape = Tape()
        loss, _ = model.loss(tape, words[:, :-1], words[:, 1:])
        tape.backward(loss)
        optimizer.step(warmup_cosine(step / 150, 0.1))
        losses.append(float(loss.array))
    assert losses[0] > 2
    assert losses[-1] < 0.5 < losses[0]  # of three first words, two may be alike


def forward(x: Array, y: Array, alpha: Array, beta: Array) -> dict[str, Any]:
    """NNForward, line for line."""
    a = alpha @ x
    z = 1 / (1 + np.exp(-a))
    b = beta @ z
    y_hat = np.exp(b) / np.exp(b).sum()
    J = -(y @ np.log(y_hat))
    return {"a": a, "z": z, "b": b, "y_hat": y_hat, "J": J}


def backward(x: Array, y: Array, alpha: Array, beta: Array, o: dict[str, Any]) -> tuple[Array, Array]:
    """NNBackward, line for line."""
    g_J = 1.0
    g_y_hat = -g_J * (y / o["y_hat"])
    g_b = g_y_hat @ (np.diag(o["y_hat"]) - np.outer(o["y_hat"], o["y_hat"]))
    g_beta, g_z = np.outer(g_b, o["z"]), beta.T @ g_b
    g_a = g_z * o["z"] * (1 - o["z"])
    g_alpha = np.outer(g_a, x)
    return g_alpha, g_beta


@pytest.mark.parametrize("seed", range(5))
def test_row_25_the_procedural_method_equals_the_tape(seed: int):
    generator = np.random.default_rng(seed)
    x, y = generator.normal(size=4), np.eye(3)[generator.integers(3)]
    alpha, beta = Parameter(generator.normal(size=(5, 4))), Parameter(generator.normal(size=(3, 5)))
    tape = Tape()
    a = Linear()(tape.value(x), alpha)
    z = Sigmoid()(a)
    b = Linear()(z, beta)
    y_hat = Softmax()(b)
    J = CrossEntropy()(tape.value(y), y_hat)
    o = forward(x, y, alpha.array, beta.array)
    for name, value in {"a": a, "z": z, "b": b, "y_hat": y_hat, "J": J}.items():
        np.testing.assert_allclose(value.array, o[name], rtol=1e-12, err_msg=name)
    g_alpha, g_beta = backward(x, y, alpha.array, beta.array, o)
    tape.backward(J)
    np.testing.assert_allclose(alpha.gradient, g_alpha, rtol=1e-12)
    np.testing.assert_allclose(beta.gradient, g_beta, rtol=1e-12)


def test_the_boxes_of_sgd_are_minibatch_sgd_with_batches_of_one_and_more():
    """θ ← θ - rate · gradient of the batch's mean loss, shuffled in every epoch: by hand, for one layer."""
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(7, 3)), np.eye(4)[generator.integers(0, 4, 7)]
    for batch_size in (1, 3):
        weight = Parameter(np.zeros((4, 3)))

        def loss(tape: Tape, examples: Any, weight: Parameter = weight) -> Any:
            inputs, gold = examples
            chances = Softmax()(Linear()(tape.value(inputs), weight))
            return CrossEntropy()(tape.value(gold / len(inputs)), chances)

        averages = minibatch_sgd(loss, [weight], [x, y], rate=0.5, epochs=4, batch_size=batch_size, seed=9)
        by_hand, order = np.zeros((4, 3)), np.random.default_rng(9)
        for epoch in range(4):
            shuffled = order.permutation(7)
            for begin in range(0, 7, batch_size):
                rows = shuffled[begin : begin + batch_size]
                scores = np.exp(x[rows] @ by_hand.T)
                chances = scores / scores.sum(1, keepdims=True)
                by_hand -= 0.5 * (chances - y[rows]).T @ x[rows] / len(rows)
            scores = np.exp(x @ by_hand.T)
            mean = -(y * np.log(scores / scores.sum(1, keepdims=True))).sum() / 7
            assert averages[epoch] == pytest.approx(mean, rel=1e-12)
        np.testing.assert_allclose(weight.array, by_hand, rtol=1e-12)


def test_row_26_an_elman_network_grows_linearly_and_attention_by_the_square():
    lengths = np.arange(1, 20)
    elman, attention = (np.array([count_nodes(name, each) for each in lengths]) for name in ("elman", "attention"))
    assert set(np.diff(elman)) == {6}  # embed, step, reshape, predict, loss, sum
    assert set(np.diff(attention, 2)) == {4}  # for every pair: a score, a slice, a product, a sum
    assert attention[-1] > 5 * elman[-1]
