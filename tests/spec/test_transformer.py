"""Rows 18 and 19 of what Chainrule promises: the Transformer language model, and positions."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from chainrule.errors import UserError
from chainrule.layers.attention import Attention, Positions
from chainrule.layers.positions import KINDS
from chainrule.models.transformer import Config, Model

VOCABULARY, EOS = 12, 11
WORDS = np.random.default_rng(0).integers(0, VOCABULARY, (2, 9))
PLACEMENTS = ("pre", "post")


def make(**settings: Any) -> Model:
    """Random weights everywhere, biases by distance too, in double precision."""
    config = Config(
        **{"width": 8, "num_layers": 2, "num_heads": 2, "context_length": 9, "norm": "layer", "bias": True,
           "activation": "gelu", **settings}
    )  # fmt: skip
    torch.manual_seed(1)
    model = Model(config, VOCABULARY, EOS).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


@torch.no_grad()
def predict(model: Model, words: Any) -> Tensor:
    words = np.atleast_2d(words)
    return model.step(words, model.start(len(words)))[0]


POLL = torch.tensor([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 2, 0], [0, 0, 0, 1]], dtype=torch.float64)  # x₁ … x₄


def poll_layer() -> Attention:
    """W_v = I, and queries and keys such that x₄ weighs the four words .1, .2, .6 and .1.

    q₄ = x₄; k_j has 2 log a_j in its last place, so that q₄·k_j / √4 = log a_j, whose softmax is a_j.
    """
    layer = Attention(4, 1, 1, 4, bias=False).double()
    keys = torch.zeros(4, 4, dtype=torch.float64)
    keys[3] = 2 * torch.tensor([0.1, 0.2, 0.6, 0.1]).double().log() / POLL.diagonal()
    identity = torch.eye(4, dtype=torch.float64)
    layer.query_key_value.weight.data = torch.cat([identity, keys, identity])
    layer.output.weight.data = identity
    return layer


@torch.no_grad()
def test_row_18_the_in_class_poll():
    """Row 18: x'₄ = .1 x₁ + .2 x₂ + .6 x₃ + .1 x₄ = [.1, .2, 1.2, .1]."""
    found = poll_layer()(POLL[None], Positions())
    assert found[0, 3].tolist() == pytest.approx([0.1, 0.2, 1.2, 0.1], abs=1e-7)


@torch.no_grad()
def test_row_18_the_in_class_poll_when_x2_and_x3_change_places():
    """Row 18: the same, for the weights follow the words; bound to their places they would give [.1, .6, .4, .1]."""
    found = poll_layer()(POLL[None, [0, 2, 1, 3]], Positions())
    assert found[0, 3].tolist() == pytest.approx([0.1, 0.2, 1.2, 0.1], abs=1e-7)
    for order in permutations(range(3)):
        found = poll_layer()(POLL[None, [*order, 3]], Positions())
        assert found[0, 3].tolist() == pytest.approx([0.1, 0.2, 1.2, 0.1], abs=1e-7)


def normed(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt() * gain + bias


def by_hand(model: Model, words: np.ndarray) -> Tensor:
    """The lecture's layer, matrix by matrix: Q Kᵀ/√d_k with -inf to the right, heads side by side, norms, residuals."""
    config, by = model.config, dict(model.named_parameters())
    x = by["embedding.weight"][words] + by["positions.weight"][: len(words)]
    time, d = len(words), config.width // config.num_heads
    future = torch.full((time, time), -torch.inf, dtype=x.dtype).triu(1)

    def attend(x: Tensor, name: str) -> Tensor:
        Q, K, V = (x @ by[f"{name}.query_key_value.weight"].T + by[f"{name}.query_key_value.bias"]).chunk(3, 1)
        heads = [
            torch.softmax(Q[:, at] @ K[:, at].T / d**0.5 + future, 1) @ V[:, at]
            for at in (slice(head * d, head * d + d) for head in range(config.num_heads))
        ]
        return torch.cat(heads, 1) @ by[f"{name}.output.weight"].T + by[f"{name}.output.bias"]

    def feed(x: Tensor, name: str) -> Tensor:
        inner = x @ by[f"{name}.input.weight"].T + by[f"{name}.input.bias"]
        inner = inner.clamp(min=0) if config.activation == "relu" else inner * torch.special.ndtr(inner)  # x Φ(x)
        return inner @ by[f"{name}.output.weight"].T + by[f"{name}.output.bias"]

    for layer in range(config.num_layers):
        for part, sublayer in (("attention", attend), ("feedforward", feed)):
            name = f"blocks.{layer}.{part}"
            norm = (by[f"{name}_norm.weight"], by[f"{name}_norm.bias"])
            if config.norm_placement == "pre":
                x = x + sublayer(normed(x, *norm), name)
            else:
                x = normed(x + sublayer(x, name), *norm)
    if config.norm_placement == "pre":
        x = normed(x, by["norm.weight"], by["norm.bias"])
    return x @ by["unembedding.weight"].T


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("num_heads", [1, 2, 4])
@pytest.mark.parametrize("norm_placement", PLACEMENTS)
@torch.no_grad()
def test_row_18_the_whole_model_is_the_lectures_equations(norm_placement: str, num_heads: int, activation: str):
    """Row 18: d_k = d_model/h; post-LN as in the lecture and pre-LN, to ten digits."""
    model = make(positions="learned", norm_placement=norm_placement, num_heads=num_heads, activation=activation)
    found = predict(model, WORDS)
    for row in range(len(WORDS)):
        torch.testing.assert_close(found[row], by_hand(model, WORDS[row]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("norm_placement", PLACEMENTS)
def test_row_18_a_later_token_never_changes_an_earlier_prediction(norm_placement: str, kind: str):
    """Row 18: causal, to the last bit, wherever the change."""
    model = make(norm_placement=norm_placement, positions=kind)
    whole = predict(model, WORDS)
    for cut in range(1, 9):
        changed = WORDS.copy()
        changed[:, cut:] = (changed[:, cut:] + 1) % VOCABULARY
        found = predict(model, changed)
        assert torch.equal(found[:, :cut], whole[:, :cut])
        assert not torch.allclose(found[:, cut], whole[:, cut])


@pytest.mark.parametrize("sizes", [[1] * 9, [4, 5], [2, 6, 1]], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("norm_placement", PLACEMENTS)
@torch.no_grad()
def test_row_18_cached_is_uncached(norm_placement: str, kind: str, sizes: list[int]):
    """Row 18: one token at a time, or several in the middle of a text."""
    model = make(norm_placement=norm_placement, positions=kind)
    whole = predict(model, WORDS)
    state, first = model.start(2), 0
    for size in sizes:
        logits, state = model.step(WORDS[:, first : first + size], state)
        torch.testing.assert_close(logits, whole[:, first : first + size], rtol=0, atol=1e-6)
        first += size


JOINS = [
    *((kind, "add") for kind in KINDS if kind != "none"),
    ("learned", "concatenate"),
    ("sinusoidal", "concatenate"),
]


@pytest.mark.parametrize(("kind", "join"), JOINS)
@pytest.mark.parametrize("num_layers", [1, 2])
def test_row_19_swapping_two_inputs_changes_the_output(num_layers: int, kind: str, join: str):
    """Row 19: wherever the two stand before the last word, with positions of every kind."""
    model = make(num_layers=num_layers, positions=kind, position_join=join)
    words = np.arange(9)
    last = predict(model, words)[0, -1]
    for first, second in ((0, 1), (2, 5), (3, 4), (6, 7)):
        swapped = words.copy()
        swapped[[first, second]] = words[[second, first]]
        assert (predict(model, swapped)[0, -1] - last).abs().max() > 1e-3, (first, second)


@pytest.mark.parametrize("norm_placement", PLACEMENTS)
def test_row_19_without_positions_one_layer_cannot_tell_the_order_of_earlier_words(norm_placement: str):
    """Row 19: the last output is the same for all orders of the words before the last one."""
    model = make(num_layers=1, positions="none", norm_placement=norm_placement)
    orders = np.array([[*order, 7] for order in permutations([3, 1, 4, 5])])
    last = predict(model, orders)[:, -1]
    torch.testing.assert_close(last, last[:1].expand_as(last), rtol=0, atol=1e-10)
    others = predict(model, [[3, 1, 4, 6, 7], [7, 1, 4, 5, 3]])[:, -1]  # another word; another question
    assert ((others - last[0]).abs().amax(1) > 1e-2).all()


def test_row_19_the_mask_alone_tells_two_layers_of_the_order():
    """Row 19, what does not hold: a second layer reads outputs of different pasts, so order shows without positions."""
    model = make(num_layers=2, positions="none")
    last = predict(model, [[3, 1, 4, 7], [1, 3, 4, 7]])[:, -1]
    assert (last[0] - last[1]).abs().max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_row_19_lengths_past_the_context_are_refused_clearly(kind: str):
    """Row 19: at once and in steps; scores of longer streams are of windows that fit."""
    model = make(positions=kind)
    sentence = "^the text has 10 tokens but this model reads 9; shorten it, or read it in windows$"
    with pytest.raises(UserError, match=sentence):
        predict(model, np.zeros(10, int))
    _, state = model.step(WORDS, model.start(2))
    with pytest.raises(UserError, match=sentence):
        model.step(WORDS[:, :1], state)
    stream = np.random.default_rng(1).integers(0, VOCABULARY, 40)
    scores = model.score(stream)
    assert scores.shape == (39,)
    expected = predict(model, stream[30:39])[0, -1].log_softmax(-1)[stream[39]]
    assert scores[38] == pytest.approx(expected.item(), abs=1e-5)
