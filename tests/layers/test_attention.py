"""Attention equals the lecture's matrix form, written out with a mask of -inf, in double precision."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from chainrule.layers.attention import LONGEST, Attention, Positions, attend_by_products
from chainrule.layers.cache import KeyValues
from chainrule.layers.positions import DistanceBias, rotary_angles

CPU = torch.device("cpu")
BATCH, TIME, WIDTH = 2, 7, 12
SHAPES: dict[str, dict[str, Any]] = {
    "one head": {"num_heads": 1, "num_key_value_heads": 1, "head_width": 12},
    "heads": {"num_heads": 4, "num_key_value_heads": 4, "head_width": 3},
    "grouped": {"num_heads": 6, "num_key_value_heads": 2, "head_width": 2},
    "one head of keys": {"num_heads": 3, "num_key_value_heads": 1, "head_width": 4, "bias": False},
    "wide heads": {"num_heads": 2, "num_key_value_heads": 2, "head_width": 10},
    "normalised": {"num_heads": 4, "num_key_value_heads": 2, "head_width": 4, "is_normalised": True},
}
PLACES = ("none", "rotary", "alibi", "relative")


def make(**settings: Any) -> Attention:
    """Random weights, norms too, in double precision."""
    torch.manual_seed(1)
    layer = Attention(WIDTH, **settings).double().eval()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return layer


def inputs(time: int = TIME) -> Tensor:
    return torch.randn(BATCH, time, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def places(kind: str, num_heads: int, head_width: int, first: int = 0, count: int = TIME) -> Positions:
    if kind == "rotary":
        return Positions(rotation=rotary_angles(first, count, head_width, 100.0, CPU))
    if kind in ("alibi", "relative"):
        bias = DistanceBias(kind, num_heads).double()
        for parameter in bias.parameters():
            parameter.data = torch.linspace(-2, 2, parameter.numel(), dtype=torch.float64).view(parameter.shape)
        return Positions(bias=bias(first, count, CPU).double().detach())
    return Positions()


def rotated(vector: Tensor, angle_cosine: Tensor, angle_sine: Tensor) -> Tensor:
    """(x_i, x_{i + half}) rotated as a pair, one at a time."""
    half = len(vector) // 2
    out = vector.clone()
    for i in range(half):
        a, b, c, s = vector[i], vector[i + half], angle_cosine[i], angle_sine[i]
        out[i], out[i + half] = a * c - b * s, a * s + b * c
    return out


def by_hand(layer: Attention, x: Tensor, positions: Positions) -> Tensor:
    """softmax(Q Kᵀ/√d + mask) V, one row of the batch and one head at a time."""
    num_heads, groups, d = layer.num_heads, layer.num_key_value_heads, layer.head_width
    time = x.shape[1]
    future = torch.full((time, time), -torch.inf, dtype=x.dtype).triu(1)
    weight, bias = layer.query_key_value.weight, layer.query_key_value.bias
    rows = []
    for row in x:
        joined = row @ weight.T + (0 if bias is None else bias)  # (time, (heads + 2 groups) d)
        parts = joined.split(d, 1)
        heads = []
        for head in range(num_heads):
            group = head // (num_heads // groups)
            Q, K, V = parts[head], parts[num_heads + group], parts[num_heads + groups + group]
            if layer.is_normalised:
                epsilon = layer.query_norm.epsilon
                Q = Q / (Q.square().mean(1, keepdim=True) + epsilon).sqrt() * layer.query_norm.weight
                K = K / (K.square().mean(1, keepdim=True) + epsilon).sqrt() * layer.key_norm.weight
            if positions.rotation is not None:
                Q, K = (torch.stack([rotated(*each) for each in zip(M, *positions.rotation, strict=True)])
                        for M in (Q, K))  # fmt: skip
            scores = Q @ K.T / d**0.5 + future
            if positions.bias is not None:
                scores = scores + positions.bias[head]
            heads.append(torch.softmax(scores, 1) @ V)
        rows.append(torch.cat(heads, 1) @ layer.output.weight.T)
    return torch.stack(rows) + (0 if layer.output.bias is None else layer.output.bias)


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_attention_and_its_gradients_are_the_matrix_form_with_a_mask(shape: dict[str, Any], kind: str):
    if kind == "rotary" and shape["head_width"] % 2:
        shape = shape | {"head_width": shape["head_width"] + 1}
    layer, x = make(**shape), inputs().requires_grad_()
    positions = places(kind, layer.num_heads, layer.head_width)
    target = torch.randn(BATCH, TIME, WIDTH, dtype=torch.float64)
    outputs, gradients = [], []
    for found in (layer(x, positions), by_hand(layer, x, positions)):
        wanted = [x, *layer.parameters()]
        gradients.append(torch.autograd.grad((found * target).sum(), wanted))
        outputs.append(found.detach())
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-10)
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    assert outputs[0].std() > 0.1


def part(layer: Attention, heads: list[int], groups: list[int]) -> Attention:
    """A layer of these heads alone: their rows of the matrices, and no output bias."""
    d, num_heads, num_groups = layer.head_width, layer.num_heads, layer.num_key_value_heads
    chosen = [*heads, *(num_heads + g for g in groups), *(num_heads + num_groups + g for g in groups)]
    rows = torch.cat([torch.arange(each * d, each * d + d) for each in chosen])
    smaller = make(num_heads=len(heads), num_key_value_heads=len(groups), head_width=d)
    smaller.query_key_value.weight.data = layer.query_key_value.weight.data[rows]
    smaller.query_key_value.bias.data = layer.query_key_value.bias.data[rows]
    columns = torch.cat([torch.arange(each * d, each * d + d) for each in heads])
    smaller.output.weight.data = layer.output.weight.data[:, columns]
    smaller.output.bias.data.zero_()
    return smaller


@torch.no_grad()
def test_many_heads_are_the_sum_of_heads_computed_one_at_a_time():
    layer, x = make(num_heads=4, num_key_value_heads=4, head_width=3), inputs()
    alone = sum(part(layer, [head], [head])(x, Positions()) for head in range(4))
    torch.testing.assert_close(layer(x, Positions()), alone + layer.output.bias, rtol=0, atol=1e-10)


@torch.no_grad()
def test_grouped_heads_are_heads_whose_keys_and_values_are_repeated():
    """Heads 0, 1 and 2 share the first keys, 3, 4 and 5 the second."""
    layer, x = make(num_heads=6, num_key_value_heads=2, head_width=4), inputs()
    repeated = part(layer, list(range(6)), [0, 0, 0, 1, 1, 1])
    repeated.output.bias.data = layer.output.bias.data
    torch.testing.assert_close(layer(x, Positions()), repeated(x, Positions()), rtol=0, atol=1e-10)
    interleaved = part(layer, list(range(6)), [0, 1, 0, 1, 0, 1])
    assert (layer(x, Positions()) - interleaved(x, Positions())).abs().max() > 0.1


@pytest.mark.parametrize("pieces", [[1] * 7, [7], [3, 4], [1, 5, 1], [2, 2, 3], [6, 1], [0, 4, 0, 3]], ids=str)
@pytest.mark.parametrize("kind", PLACES)
@torch.no_grad()
def test_a_cache_read_in_pieces_gives_what_one_reading_gives(kind: str, pieces: list[int]):
    """Pieces of several tokens in the middle of a cache, and empty ones, included."""
    layer, x = make(num_heads=4, num_key_value_heads=2, head_width=4), inputs()
    whole = layer(x, places(kind, 4, 4))
    cache = KeyValues.start(1, BATCH, 2, x.new_empty(4))
    found, first = [], 0
    for count in pieces:
        cache = cache.extend(count)
        piece = x[:, first : first + count]
        found.append(layer(piece, places(kind, 4, 4, first, count), partial(cache.write, 0)))
        first += count
    torch.testing.assert_close(torch.cat(found, 1), whole, rtol=0, atol=1e-6 if kind == "rotary" else 1e-12)


@pytest.mark.parametrize("time", [2, 33, 150, 600])
@pytest.mark.parametrize("kind", PLACES)
@torch.no_grad()
def test_what_comes_later_changes_nothing_at_all(kind: str, time: int):
    """To the last bit, in single precision, also where the fused kernel works in blocks."""
    layer, x = make(num_heads=2, num_key_value_heads=1, head_width=4).float(), inputs(time).float()
    positions = places(kind, 2, 4, 0, time)
    positions = replace(positions, bias=None if positions.bias is None else positions.bias.float())
    changed = x.clone()
    cut = time // 2
    changed[:, cut:] = 100 * torch.randn(BATCH, time - cut, WIDTH)
    before, after = layer(x, positions), layer(changed, positions)
    assert torch.equal(before[:, :cut], after[:, :cut])
    assert not torch.allclose(before[:, cut:], after[:, cut:])


@torch.no_grad()
def test_dropout_takes_weights_away_and_scales_up_the_others():
    """Words that are axes, values and output the identity: the output is the weights themselves."""
    torch.manual_seed(0)
    layer = Attention(12, 1, 1, 12, bias=False, dropout=0.25).double()
    layer.query_key_value.weight.data[24:] = torch.eye(12)
    layer.output.weight.data = torch.eye(12, dtype=torch.float64)
    words = torch.eye(12, dtype=torch.float64).expand(500, 12, 12)
    weights = layer.eval()(words, Positions())
    torch.testing.assert_close(weights.sum(-1), torch.ones(500, 12, dtype=torch.float64))
    assert torch.equal(weights[0], weights[1])
    dropped = layer.train()(words, Positions())
    is_kept = dropped != 0
    torch.testing.assert_close(dropped[is_kept], weights[is_kept] / 0.75)
    seen = weights > 0  # the past, 78 weights of each matrix
    assert int(seen[0].sum()) == 78
    assert 1 - float(is_kept[seen].double().mean()) == pytest.approx(0.25, abs=0.01)  # 39,000 coins: ± 0.0022


def heads_of(num_heads: int, groups: int, time: int, keys: int) -> tuple[Tensor, ...]:
    """Random queries, keys and values, (batch, heads, tokens, head_width), and a gradient of what they give."""
    generator = torch.Generator().manual_seed(3)
    sizes = [(num_heads, time), (groups, keys), (groups, keys), (num_heads, time)]
    return tuple(torch.randn(BATCH, *size, 16, dtype=torch.float64, generator=generator) for size in sizes)


@pytest.mark.parametrize("kind", ["causal", "for each head", "for each row"])
@pytest.mark.parametrize(("groups", "time", "keys"), [(4, 33, 33), (2, 33, 33), (1, 5, 33), (4, 1, 9)])
def test_attention_by_products_is_torchs_and_so_are_its_gradients(kind: str, groups: int, time: int, keys: int):
    *given, upstream = heads_of(4, groups, time, keys)
    past = torch.zeros(time, keys, dtype=torch.float64).masked_fill_(
        torch.ones(time, keys).triu(keys - time + 1) > 0, -torch.inf
    )
    rows = {"causal": 1, "for each head": 1, "for each row": BATCH}[kind]
    bias = past + torch.randn(rows, 4, time, keys, dtype=torch.float64) * (kind != "causal")
    bias.requires_grad_()
    wanted = [each.requires_grad_() for each in given] + ([bias] if kind != "causal" else [])
    expected = F.scaled_dot_product_attention(*given, attn_mask=bias, enable_gqa=True)
    found = attend_by_products(*given, None if kind == "causal" else bias)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    ours, theirs = (torch.autograd.grad(each, wanted, upstream) for each in (found, expected))
    for mine, reference in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, reference, rtol=0, atol=1e-12)


@pytest.mark.parametrize("time", [40, LONGEST + 1])
@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("shape", ["heads", "normalised"])
def test_in_bfloat16_attention_is_what_it_is_in_float32_but_for_rounding(shape: str, kind: str, time: int):
    """Whether it keeps its weights in memory, or has more tokens than that."""
    layer = make(**SHAPES[shape] | {"head_width": 4}).float().train()
    with torch.no_grad():
        for weight in (layer.query_key_value.weight, layer.output.weight):
            weight /= 2
    x, upstream = inputs(time).float().requires_grad_(), torch.randn(BATCH, time, WIDTH)
    positions = places(kind, 4, 4, 0, time)
    positions = replace(positions, bias=None if positions.bias is None else positions.bias.float())
    found = []
    for is_rounded in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=is_rounded):
            y = layer(x, positions).float()
        found.append([y, *torch.autograd.grad(y, [x, *layer.parameters()], upstream)])
    for exact, rounded in zip(*found, strict=True):
        assert (rounded - exact).norm() < 0.05 * exact.norm()
    assert not torch.equal(found[0][0], found[1][0])
