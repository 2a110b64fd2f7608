"""Whole models on the tape against the torch ones, on the same weights: losses, gradients, ten steps, states."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from chainrule import registry
from chainrule.models import elman, gru, lstm, mlp, transformer, ugrnn
from chainrule.models._neural import NeuralModel
from chainrule.models.contract import IGNORE, Batch
from chainrule.nest import flatten
from chainrule.tape.models import MODELS, Model
from chainrule.tape.optimizers import SGD, AdamW, clip_by_global_norm
from chainrule.tape.tape import Tape

VOCABULARY, EOS, BATCH, TIME = 13, 12, 3, 7
FAST = replace(transformer.SIZES["tiny"], ngram_order=0, context_length=32)
LOUD = replace(FAST, initialisation="normal")  # not silent at the start
CONFIGS: dict[str, tuple[str, Any]] = {
    "mlp": ("mlp", mlp.SIZES["tiny"]),
    "mlp, past the tanh units nothing": ("mlp", replace(mlp.SIZES["tiny"], is_direct=False)),
    "bow": ("bow", registry.find("chainrule.models", "bow", "model").SIZES["tiny"]),
    "elman": ("elman", elman.SIZES["tiny"]),
    "elman, relu, residual": ("elman", elman.Config(8, 3, nonlinearity="relu", residual=True)),
    "elman, logistic, not tied": ("elman", elman.Config(8, 1, 5, nonlinearity="logistic", tied=False)),
    "ugrnn": ("ugrnn", ugrnn.SIZES["tiny"]),
    "gru": ("gru", gru.SIZES["tiny"]),
    "lstm": ("lstm", lstm.SIZES["tiny"]),
    "lstm, scaled": ("lstm", lstm.Config(8, 2, input_scale=4.0)),
    "transformer, gpt2": ("transformer", transformer.SIZES["gpt2-tiny"]),
    "transformer, llama": ("transformer", transformer.SIZES["llama-tiny"]),
    "transformer, fast": ("transformer", LOUD),
    "transformer, capped": ("transformer", replace(LOUD, logit_cap=3.0, output_bias=True)),
    "transformer, unplaced": ("transformer", replace(LOUD, positions="none", activation="gelu")),
}  # fmt: skip
named = pytest.mark.parametrize("name", CONFIGS)


def twins(name: str) -> tuple[NeuralModel, Model]:
    """In 64 bits, each with its own copy of the same weights, none of them zero."""
    architecture, config = CONFIGS[name]
    torch.manual_seed(0)
    ours = registry.find("chainrule.models", architecture, "model").Model(config, VOCABULARY, EOS).double()
    for parameter in ours.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    arrays = {key: parameter.detach().numpy().copy() for key, parameter in ours.named_parameters()}
    return ours, MODELS[architecture](config, arrays)


def batch(seed: int = 0) -> Batch:
    generator = np.random.default_rng(seed)
    words = generator.integers(0, VOCABULARY, (BATCH, TIME + 1))
    targets = words[:, 1:].copy()
    targets[0, :2] = IGNORE
    return Batch(torch.from_numpy(words[:, :-1]), torch.from_numpy(targets))


def loss_of(twin: Model, given: Batch, state: Any = None, **settings: Any) -> tuple[Tape, Any, Any]:
    tape = Tape()
    return tape, *twin.loss(tape, given.inputs.numpy(), given.targets.numpy(), state, **settings)


@named
def test_loss_and_every_gradient_are_those_of_torch(name):
    ours, twin = twins(name)
    loss = ours.loss(batch())
    (loss.total / loss.count).backward()
    tape, mean, _ = loss_of(twin, batch())
    tape.backward(mean)
    assert float(mean.array) == pytest.approx(float(loss.total.detach()) / loss.count, rel=1e-9)
    assert twin.parameters.keys() == dict(ours.named_parameters()).keys()
    for key, parameter in ours.named_parameters():
        np.testing.assert_allclose(
            twin.parameters[key].gradient, parameter.grad.numpy(), rtol=1e-9, atol=1e-12, err_msg=key
        )


@named
def test_ten_steps_of_sgd_give_the_same_weights(name):
    ours, twin = twins(name)
    theirs, mine = torch.optim.SGD(ours.parameters(), 0.1), SGD(twin.parameters.values(), 0.1)
    for step in range(10):
        loss = ours.loss(batch(step))
        (loss.total / loss.count).backward()
        theirs.step()
        theirs.zero_grad()
        tape, mean, _ = loss_of(twin, batch(step))
        tape.backward(mean)
        mine.step()
    for key, parameter in ours.named_parameters():
        np.testing.assert_allclose(
            twin.parameters[key].array, parameter.detach().numpy(), rtol=1e-8, atol=1e-10, err_msg=key
        )


@pytest.mark.parametrize(
    "name", [name for name in CONFIGS if "mlp" in name or CONFIGS[name][0] in ("elman", "ugrnn", "gru", "lstm")]
)
def test_a_state_goes_on_from_window_to_window(name):
    ours, twin = twins(name)
    theirs: Any = ours.start(BATCH)
    state = None
    for window in range(3):
        loss, theirs = ours.advance(batch(window), theirs)
        _, mean, state = loss_of(twin, batch(window), state)
        assert float(mean.array) == pytest.approx(float(loss.total.detach()) / loss.count, rel=1e-9)
    if ours.carries_state:
        flat = {key: tensor.detach().numpy() for key, tensor in flatten(theirs).items()}
        for mine, other in zip(state, twin.join_state(flat), strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-9)
        for key, array in twin.split_state(state).items():
            np.testing.assert_allclose(array, flat[key], rtol=1e-9)


@pytest.mark.parametrize("name", ["mlp", "bow", "lstm", "transformer, gpt2"])
def test_dropout_depends_on_its_seed(name):
    architecture, config = CONFIGS[name]
    rates = {key: 0.3 for key in ("dropout", "input_dropout", "recurrent_dropout") if hasattr(config, key)}
    _, plain = twins(name)
    twin = MODELS[architecture](replace(config, **rates), {key: each.array for key, each in plain.parameters.items()})
    with_seed = [float(loss_of(twin, batch(), seed=seed)[1].array) for seed in (1, 1, 2)]
    assert with_seed[0] == with_seed[1] != with_seed[2]
    assert float(loss_of(twin, batch())[1].array) == float(loss_of(plain, batch())[1].array)


def test_adamw_is_that_of_torch():
    ours, twin = twins("lstm")
    matrices = {"params": [each for each in ours.parameters() if each.ndim > 1], "weight_decay": 0.1}
    vectors = {"params": [each for each in ours.parameters() if each.ndim < 2], "weight_decay": 0.0}
    theirs = torch.optim.AdamW([matrices, vectors], 0.01, (0.8, 0.9))
    mine = AdamW(twin.parameters.values(), 0.01, (0.8, 0.9), decay=0.1)
    for step in range(10):
        loss = ours.loss(batch(step))
        (loss.total / loss.count).backward()
        norm = torch.nn.utils.clip_grad_norm_(ours.parameters(), 0.5)
        theirs.step()
        theirs.zero_grad()
        tape, mean, _ = loss_of(twin, batch(step))
        tape.backward(mean)
        assert clip_by_global_norm(twin.parameters.values(), 0.5) == pytest.approx(float(norm), rel=1e-9)
        mine.step()
    for key, parameter in ours.named_parameters():
        np.testing.assert_allclose(
            twin.parameters[key].array, parameter.detach().numpy(), rtol=1e-8, atol=1e-9, err_msg=key
        )


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"ngram_order": 2, "ngram_rows": 64}, "on the tape ngram_order must be 0, got 2"),
        ({"norm_placement": "post"}, "on the tape norm_placement must be pre, got post"),
        ({"positions": "alibi"}, "on the tape positions must be one of none, learned, rotary, got alibi"),
    ],
)
def test_what_the_tape_has_no_module_for_is_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        MODELS["transformer"](replace(FAST, **settings), {})
