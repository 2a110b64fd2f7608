"""Rows 6 to 8 of what Chainrule promises: from words side by side over a bag of words to a Transformer block."""

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch

from chainrule.models import attention, bow, mlp
from chainrule.models.contract import IGNORE, Batch, log_softmax

VOCABULARY, EOS = 11, 10
WORDS = np.random.default_rng(3).integers(0, VOCABULARY, (3, 9))  # (batch, time)


def make(module: Any, config: Any) -> Any:
    """A model of random weights in double precision, so that two ways to compute the same agree to many digits."""
    torch.manual_seed(5)
    return module.Model(config, VOCABULARY, EOS).double().eval()


def weights_of(model: Any) -> dict[str, np.ndarray]:
    return {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}


def predict(model: Any, words: Any) -> np.ndarray:
    """Logits after every word: (batch, time, vocabulary)."""
    words = np.atleast_2d(words)
    return model.step(words, model.start(len(words)))[0].detach().numpy()


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


class Bengio:
    """y = b + W x + U tanh(d + H x) and its gradients, derived by hand, one word at a time."""

    def __init__(self, parameters: dict[str, np.ndarray], order: int, hidden_width: int):
        self.phi, self.H, self.d = (parameters[name] for name in ("embedding.weight", "hidden.weight", "hidden.bias"))
        self.U, self.W = np.split(parameters["unembedding.weight"], [hidden_width], 1)
        self.b = parameters["unembedding.bias"]
        self.back = range(order - 1)

    def gradients(self, inputs: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Logits, and the gradient of the summed loss by every parameter."""
        logits = np.zeros((*inputs.shape, len(self.b)))
        by = {name: np.zeros_like(getattr(self, name)) for name in ("phi", "H", "d", "U", "W", "b")}
        for row, t in np.ndindex(*inputs.shape):
            ids = [inputs[row, t - back] if t >= back else VOCABULARY for back in self.back]  # the last row: no word
            x = np.concatenate([self.phi[id] for id in ids])
            h = np.tanh(self.d + self.H @ x)
            y = logits[row, t] = self.b + self.W @ x + self.U @ h
            if targets[row, t] == IGNORE:
                continue
            dy = softmax(y) - np.eye(len(y))[targets[row, t]]
            da = (self.U.T @ dy) * (1 - h**2)  # by what tanh is of
            dx = self.W.T @ dy + self.H.T @ da
            by["b"] += dy
            by["W"] += np.outer(dy, x)
            by["U"] += np.outer(dy, h)
            by["d"] += da
            by["H"] += np.outer(da, x)
            for id, part in zip(ids, np.split(dx, len(ids)), strict=True):
                by["phi"][id] += part
        return logits, {
            "embedding.weight": by["phi"], "hidden.weight": by["H"], "hidden.bias": by["d"],
            "unembedding.weight": np.concatenate([by["U"], by["W"]], 1), "unembedding.bias": by["b"],
        }  # fmt: skip


@pytest.mark.parametrize("order", [2, 3, 5])
def test_row_6_the_mlp_and_its_gradients_are_bengios_equation(order: int):
    """Row 6: logits, loss and every gradient equal those of the equation, derived by hand."""
    model = make(mlp, mlp.Config(order=order, width=4, hidden_width=7))
    inputs, targets = WORDS[:, :-1], WORDS[:, 1:].copy()
    targets[0, 3] = IGNORE
    logits, gradients = Bengio(weights_of(model), order, 7).gradients(inputs, targets)
    np.testing.assert_allclose(predict(model, inputs), logits, rtol=0, atol=1e-12)
    loss = model.loss(Batch(inputs, targets))
    asked = targets != IGNORE
    expected = -np.log(softmax(logits)[asked, targets[asked]]).sum()
    assert loss.total.item() == pytest.approx(expected, abs=1e-10)
    loss.total.backward()
    assert {name for name, _ in model.named_parameters()} == set(gradients)
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(parameter.grad.numpy(), gradients[name], rtol=0, atol=1e-12, err_msg=name)


def test_row_7_the_bag_of_words_is_the_lectures_equation():
    """Row 7: h = tanh(W' (1/i) Σ φ(x) + b'), softmax(W'' h + b'')."""
    model = make(bow, bow.Config(width=5, hidden_width=6))
    by = weights_of(model)
    expected = np.empty((*WORDS.shape, VOCABULARY))
    for row, t in np.ndindex(*WORDS.shape):
        mean = sum(by["embedding.weight"][word] for word in WORDS[row, : t + 1]) / (t + 1)
        h = np.tanh(by["hidden.weight"] @ mean + by["hidden.bias"])
        expected[row, t] = by["unembedding.weight"] @ h + by["unembedding.bias"]
    np.testing.assert_allclose(predict(model, WORDS), expected, rtol=0, atol=1e-12)


def test_row_7_the_order_of_a_bag_does_not_matter_but_its_words_do():
    """Row 7: all orders of a context give the same prediction, to 1e-6 in single precision."""
    model = make(bow, bow.SIZES["tiny"]).float()
    orders = np.array(list(permutations([3, 1, 4, 1, 5])))
    last = predict(model, orders)[:, -1]
    np.testing.assert_allclose(last, np.broadcast_to(last[0], last.shape), rtol=0, atol=1e-6)
    assert np.abs(predict(model, [3, 1, 4, 4, 5])[0, -1] - last[0]).max() > 1e-3


BAG = attention.Config(
    width=8, hidden_width=6, context_length=16, weights="uniform", positions="none", num_heads=1, activation="tanh",
    has_residuals=False, has_layer_norm=False,
)  # fmt: skip
STEPS: list[dict[str, Any]] = [
    {"weights": "softmax"},
    {"positions": "learned"},
    {"num_heads": 2},
    {"activation": "gelu"},
    {"has_residuals": True},
    {"has_layer_norm": True},
]
RUNGS = [replace(BAG, **{name: value for step in STEPS[:count] for name, value in step.items()}) for count in range(7)]
ALONE = [replace(BAG, **step) for step in STEPS]


def test_row_8_uniform_attention_is_the_bag_of_words():
    """Row 8: with every switch off the two models have the same parameters, and make the same predictions."""
    bag = make(bow, bow.Config(width=8, hidden_width=6))
    uniform = make(attention, BAG)
    assert not np.allclose(predict(uniform, WORDS), predict(bag, WORDS), atol=1e-2)
    uniform.load_state_dict(bag.state_dict())
    np.testing.assert_allclose(predict(uniform, WORDS), predict(bag, WORDS), rtol=0, atol=1e-14)
    batch = Batch(WORDS[:, :-1], WORDS[:, 1:])
    for model in (bag, uniform):
        model.loss(batch).total.backward()
    for ours, theirs in zip(uniform.parameters(), bag.parameters(), strict=True):
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=0, atol=1e-12)


def layer_norm(x: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * gain + bias


def gelu(x: np.ndarray) -> np.ndarray:
    from math import erf

    return x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2


def climb(by: dict[str, np.ndarray], words: np.ndarray, config: attention.Config) -> np.ndarray:
    """The lecture's equations for the word after these, with the steps that the config switches on."""
    x = by["embedding.weight"][words]  # (time, width)
    if config.positions == "learned":
        x = x + by["positions.weight"][: len(words)]
    if config.weights == "uniform":
        z = x.mean(0)
    else:
        heads = []
        for rows in np.split(np.arange(config.width), config.num_heads):
            q, K, V = (by["query_key_value.weight"][part * config.width + rows] @ x.T for part in range(3))
            heads.append(V @ softmax(q[:, -1] @ K / np.sqrt(len(rows))))
        z = np.concatenate(heads)
    z = z + x[-1] if config.has_residuals else z
    if config.has_layer_norm:
        z = layer_norm(z, by["attention_norm.weight"], by["attention_norm.bias"])
    h = by["hidden.weight"] @ z + by["hidden.bias"]
    h = gelu(h) if config.activation == "gelu" else np.tanh(h)
    if not (config.has_residuals or config.has_layer_norm):
        return by["unembedding.weight"] @ h + by["unembedding.bias"]
    h = by["back.weight"] @ h + by["back.bias"]
    h = h + z if config.has_residuals else h
    if config.has_layer_norm:
        h = layer_norm(h, by["feedforward_norm.weight"], by["feedforward_norm.bias"])
    return by["unembedding.weight"] @ h


def name_of(config: attention.Config) -> str:
    return ",".join(str(getattr(config, name)) for step in STEPS for name in step)


@pytest.mark.parametrize("config", [*RUNGS, *ALONE[1:]], ids=name_of)
def test_row_8_every_step_of_the_ladder_is_the_lectures_equation(config: attention.Config):
    """Row 8: each step by itself, and each on top of those before it."""
    model = make(attention, config)
    torch.nn.init.normal_(model.embedding.weight)  # so that no step is lost in rounding
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    by = weights_of(model)
    found = predict(model, WORDS)
    for row, t in np.ndindex(*WORDS.shape):
        np.testing.assert_allclose(found[row, t], climb(by, WORDS[row, : t + 1], config), rtol=0, atol=1e-12)


@pytest.mark.parametrize("config", [*RUNGS, *ALONE[1:]], ids=name_of)
def test_row_8_every_step_of_the_ladder_can_be_learned(config: attention.Config):
    """Row 8: a small step against the gradient lowers the loss by what the gradient says."""
    model = make(attention, config)
    batch = Batch(WORDS[:, :-1], WORDS[:, 1:])
    before = model.loss(batch).total
    before.backward()
    slope = sum(float(parameter.grad.square().sum()) for parameter in model.parameters())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 1e-6 * parameter.grad
    assert slope > 0.1
    assert (before - model.loss(batch).total).item() == pytest.approx(1e-6 * slope, rel=1e-2)


def last_of_all_orders(config: attention.Config) -> np.ndarray:
    """Predictions after the same word, with those before it in every order."""
    model = make(attention, config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)  # large enough to matter, not so large that softmax takes one word
    orders = np.array([[*order, 7] for order in permutations([3, 1, 4, 5])])
    return log_softmax(predict(model, orders)[:, -1])


@pytest.mark.parametrize("config", [replace(rung, positions="none") for rung in RUNGS], ids=name_of)
def test_row_8_without_positions_the_order_of_earlier_words_does_not_matter(config: attention.Config):
    """Row 8: order-invariant; the latest word stays where it is, for it asks the question."""
    found = last_of_all_orders(config)
    np.testing.assert_allclose(found, np.broadcast_to(found[0], found.shape), rtol=0, atol=1e-10)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
@pytest.mark.parametrize("config", RUNGS[2:], ids=name_of)
def test_row_8_with_positions_the_order_of_earlier_words_matters(config: attention.Config, positions: str):
    """Row 8: no two orders predict the same."""
    found = last_of_all_orders(replace(config, positions=positions))
    gaps = np.abs(found[:, None] - found).max(-1) + np.eye(len(found))
    assert gaps.min() > 1e-6


def test_row_8_positions_do_not_help_a_bag():
    """Row 8: the mean of x + p is the mean of x plus that of p, so that only attention can use positions."""
    found = last_of_all_orders(ALONE[1])
    np.testing.assert_allclose(found, np.broadcast_to(found[0], found.shape), rtol=0, atol=1e-10)
