"""The compiled step is the model's own forward: every kind of block, whatever was read before, by any threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from chainrule.kernels.int8 import round_to_int8
from chainrule.kernels.jit import CORES
from chainrule.layers import block_step
from chainrule.layers.activation import ACTIVATIONS
from chainrule.models.transformer import FAST, GPT2, LLAMA, Config, Model

SHAPE: dict[str, Any] = {"width": 48, "num_layers": 3, "num_heads": 4, "context_length": 64}
KINDS = {
    "gpt2": GPT2(**SHAPE),
    "llama": LLAMA(**SHAPE, num_key_value_heads=2),
    "fast": FAST(**SHAPE, ngram_order=3, ngram_rows=64),
    "neox": Config(**SHAPE, norm="layer", activation="gelu", parallel=True, bias=True, rotary_fraction=0.5),
    "original": Config(**SHAPE, norm="layer", norm_placement="post", positions="sinusoidal", activation="relu"),
    "original, silu": Config(**SHAPE, norm="layer", norm_placement="post", activation="silu", bias=True),
    "qwen": LLAMA(**SHAPE, attention_bias="queries", head_width=20, qk_norm=True, hidden_width=36),
    "no positions": Config(**SHAPE, positions="none", tied=True),
}
PIECES = [(0, 18), (18, 19), (19, 22), (22, 23), (23, 30)]  # the first is read by torch, the others by the kernel


def build(config: Config) -> Model:
    torch.manual_seed(1)
    model = Model(config, 31, 0).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 1.0 if parameter.dim() == 1 else 0.0, 0.3)
    return model


def read(model: Model, ids: torch.Tensor) -> torch.Tensor:
    state, found = model.start(len(ids)), []
    with torch.no_grad():
        for begin, end in PIECES:
            logits, state = model.step(ids[:, begin:end], state)
            found.append(logits)
    return torch.cat(found, 1)


def test_every_activation_has_its_kernel_and_is_tried_here():
    assert set(block_step.ACTIVATIONS) == set(ACTIVATIONS) == {each.activation for each in KINDS.values()}


@pytest.mark.parametrize("name", KINDS)
@torch.no_grad()
def test_pieces_by_the_kernel_are_the_whole_by_torch(name: str, threads: int, monkeypatch):
    model = build(KINDS[name])
    ids = torch.randint(31, (2, 30), generator=torch.Generator().manual_seed(2))
    whole, _ = model.read(ids, None)
    whole = model.output(whole)
    calls = []
    plain = block_step.BlockSteps.read
    monkeypatch.setattr(block_step.BlockSteps, "read", lambda *all: calls.append(1) or plain(*all))
    found = read(model, ids)
    assert len(calls) == len(PIECES) - 1
    torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-4 * float(whole.abs().max()))


@torch.no_grad()
def test_rows_of_different_lengths_stay_apart():
    from chainrule.nest import add_rows

    model = build(KINDS["llama"])
    ids = torch.randint(31, (1, 20), generator=torch.Generator().manual_seed(3))
    states, expected = [], []
    for length in (3, 11, 19):
        _, state = model.step(ids[:, :length], model.start(1))
        states.append(state)
        hidden, _ = model.read(ids[:, : length + 1], None)
        expected.append(model.output(hidden[:, -1]))
    state = add_rows(add_rows(states[0], states[1]), states[2])
    found, _ = model.step(torch.stack([ids[0, length : length + 1] for length in (3, 11, 19)]), state)
    torch.testing.assert_close(found[:, 0], torch.cat(expected), rtol=1e-4, atol=1e-3)


@torch.no_grad()
def test_eight_bits_are_the_rounded_weights_by_torch():
    model = build(KINDS["llama"])
    ids = torch.randint(31, (1, 30), generator=torch.Generator().manual_seed(4))
    before = read(model, ids)
    model.round_to_int8()
    hidden, _ = model.read(ids, None)
    torch.testing.assert_close(read(model, ids), model.output(hidden), rtol=1e-4, atol=1e-3)
    assert (read(model, ids) - before).abs().max() > 1e-3


@torch.no_grad()
def test_weights_that_move_or_change_are_noticed():
    model = build(KINDS["gpt2"])
    ids = torch.randint(31, (1, 30), generator=torch.Generator().manual_seed(5))
    read(model, ids)
    for parameter in model.parameters():
        parameter.data = parameter.data * 0.5  # elsewhere
    hidden, _ = model.read(ids, None)
    torch.testing.assert_close(read(model, ids), model.output(hidden), rtol=1e-4, atol=1e-4)
    for parameter in model.parameters():
        parameter.mul_(0.5)  # where it was
    hidden, _ = model.read(ids, None)
    torch.testing.assert_close(read(model, ids), model.output(hidden), rtol=1e-4, atol=1e-4)


def replace_weight(module: Any, name: str = "weight") -> None:
    setattr(module, name, torch.nn.Parameter(torch.randn_like(getattr(module, name))))


REPLACEMENTS: dict[str, Callable[[Model], Any]] = {
    "the last norm": lambda model: replace_weight(model.norm),
    "a bias": lambda model: replace_weight(model.blocks[1].feedforward.input, "bias"),
    "memory": lambda model: setattr(model.blocks[1].attention_norm.weight, "data", torch.randn(48)),
    "a module": lambda model: setattr(
        model.blocks[1].feedforward, "output", build(KINDS["gpt2"]).blocks[2].feedforward.output
    ),
    "a block": lambda model: model.blocks.__setitem__(1, build(KINDS["gpt2"]).blocks[2]),
    "loaded": lambda model: model.load_state_dict(
        {name: torch.randn_like(each) for name, each in model.state_dict().items()}, assign=True
    ),
    "eight bits": lambda model: round_to_int8(model.blocks[1].feedforward.input.weight),
    "not contiguous": lambda model: setattr(
        model.blocks[1].attention.output, "weight", torch.nn.Parameter(torch.randn(48, 48).t())
    ),
}


@pytest.mark.parametrize("what", REPLACEMENTS)
@torch.no_grad()
def test_anything_that_is_replaced_is_noticed(what: str):
    model = build(KINDS["gpt2"])
    ids = torch.randint(31, (1, 12), generator=torch.Generator().manual_seed(5))
    model.step(ids, model.start(1))
    REPLACEMENTS[what](model)
    found, _ = model.step(ids, model.start(1))
    hidden, _ = model.read(ids, None)
    torch.testing.assert_close(found, model.output(hidden), rtol=1e-4, atol=1e-3)


@torch.no_grad()
def test_no_tokens_have_no_logits():
    model = build(KINDS["llama"])
    nothing = torch.zeros(1, 0, dtype=torch.long)
    ids = torch.arange(4)[None]
    logits, state = model.step(nothing, model.start(1))
    assert logits.shape == (1, 0, 31)
    _, state = model.step(ids, state)
    logits, state = model.step(nothing, state)
    assert logits.shape == (1, 0, 31)
    again, _ = model.step(ids, state)
    hidden, _ = model.read(torch.cat([ids, ids], 1), None)
    torch.testing.assert_close(again, model.output(hidden)[:, 4:], rtol=1e-4, atol=1e-3)


@torch.no_grad()
def test_a_state_that_was_stepped_from_may_be_stepped_from_again():
    model = build(KINDS["fast"])
    ids = torch.randint(31, (1, 9), generator=torch.Generator().manual_seed(6))
    _, state = model.step(ids, model.start(1))
    first, _ = model.step(ids[:, :2], state)
    model.step(ids[:, 5:8], state)
    again, _ = model.step(ids[:, :2], state)
    assert torch.equal(first, again)


@torch.no_grad()
def test_a_rewound_state_is_one_that_never_read_more():
    model = build(KINDS["fast"])
    ids = torch.randint(31, (1, 20), generator=torch.Generator().manual_seed(7))
    _, before = model.step(ids[:, :10], model.start(1))
    _, plain = model.step(ids[:, 10:12], before)
    expected, _ = model.step(ids[:, 12:14], plain)
    _, before = model.step(ids[:, :10], model.start(1))
    _, ahead = model.step(ids[:, 10:15], before)
    found, after = model.step(ids[:, 12:14], model.rewind(ahead, before, np.asarray(ids[:, 10:12])))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert after["cache"].lengths.tolist() == [14]


def test_texts_of_one_model_in_several_threads_do_not_meet(threads: int):
    model = build(KINDS["llama"])
    texts = torch.randint(31, (4, 1, 60), generator=torch.Generator().manual_seed(8))

    def one_by_one(ids: torch.Tensor) -> torch.Tensor:
        found, state = [], model.start(1)
        with torch.no_grad():
            for place in range(ids.shape[1]):
                logits, state = model.step(ids[:, place : place + 1], state)
                found.append(logits)
        return torch.cat(found, 1)

    alone = [one_by_one(ids) for ids in texts]
    model._steps = None
    repeats = 5 if threads <= CORES else 1  # threads that share a core wait for each other, minutes in all
    with ThreadPoolExecutor(len(texts)) as pool:
        together = list(pool.map(one_by_one, [*texts] * repeats))
    for found, expected in zip(together, alone * repeats, strict=True):
        assert torch.equal(found, expected)
