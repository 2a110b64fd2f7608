"""Taking the residual stream of a Transformer apart: who made the logit of a token, and what every layer would guess.

The stream is a sum, and a norm whose scale is held at what it was is linear. So the logit of a token is a sum too, with
one term for each vector that was ever added to the stream: the embedding, every head, every feed-forward network, the
biases (Elhage et al. 2021). "Lens": the stream after each layer, read by the output as if it were the last
(nostalgebraist 2020).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.layers.attention import Attention, Positions
from chainrule.layers.block import Block
from chainrule.layers.norm import RMSNorm
from chainrule.models._recorded import Calls
from chainrule.models.explanation import Guess, TokenText

LENS_TOKENS = 12  # the latest, of which every layer's guess is shown


class Part(NamedTuple):
    """One of the vectors that add up to the stream at the last position."""

    layer: int | None  # from 1; None: before and after the layers
    name: str
    vector: Tensor


def attention_weights(attention: Attention, calls: Calls) -> Tensor:
    """softmax(q·k/√d + bias) of every head: (heads, time, time)."""
    x, places = calls[attention].arguments[:2]
    query, key, _ = (each[0] for each in attention.project(x, places))  # (heads, time, head_width)
    key = key.repeat_interleave(attention.num_heads // attention.num_key_value_heads, 0)
    scores = query @ key.transpose(1, 2) / attention.head_width**0.5
    return (scores + _mask(places, scores)).softmax(-1)


def _mask(places: Positions, scores: Tensor) -> Tensor:
    if places.bias is not None:
        return places.bias
    return torch.full_like(scores[0], -torch.inf).triu(1)


def follow_parts(parts: list[Part], blocks: Sequence[Block], norm: nn.Module, calls: Calls) -> list[Part]:
    """Every vector whose sum is what the output reads at the last position; `parts` add up to the embedding."""
    for layer, block in enumerate(blocks, 1):
        parts = parts + _heads(layer, block.attention, calls)
        if not block.is_pre:
            parts = _through_norm(parts, block.attention_norm, layer, calls)
        parts = [*parts, Part(layer, "feed-forward", calls[block.feedforward].output[0, -1])]
        if not block.is_pre:
            parts = _through_norm(parts, block.feedforward_norm, layer, calls)
    return _through_norm(parts, norm, None, calls)


def _heads(layer: int, attention: Attention, calls: Calls) -> list[Part]:
    """What each head adds to the stream: its columns of the output matrix times what it gathered."""
    gathered = calls[attention.output].arguments[0][0, -1].split(attention.head_width)
    columns = attention.output.weight.split(attention.head_width, 1)
    parts = [
        Part(layer, f"head {head}", matrix @ vector)
        for head, (matrix, vector) in enumerate(zip(columns, gathered, strict=True), 1)
    ]
    if attention.output.bias is not None:
        parts.append(Part(layer, "attention bias", attention.output.bias))
    return parts


def _through_norm(parts: list[Part], norm: nn.Module, layer: int | None, calls: Calls) -> list[Part]:
    """All parts as they are after a norm whose scale is held at what it was for their sum."""
    if isinstance(norm, nn.Identity):
        return parts
    through = _linear(norm, calls[norm].arguments[0][0, -1])
    parts = [part._replace(vector=through(part.vector)) for part in parts]
    bias = getattr(norm, "bias", None)
    return parts if bias is None else [*parts, Part(layer, "norm bias", bias)]


def _linear(norm: nn.Module, x: Tensor) -> Callable[[Tensor], Tensor]:
    """The norm as a linear map, with the scale that it has for x."""
    if isinstance(norm, RMSNorm):
        gain = norm.weight * (x.square().mean() + norm.epsilon).rsqrt()
        return lambda vector: vector * gain
    assert isinstance(norm, nn.LayerNorm)
    scaled = norm.weight * (x.var(correction=0) + norm.eps).rsqrt()
    return lambda vector: (vector - vector.mean()) * scaled


def logit_lens(
    blocks: Sequence[Block],
    calls: Calls,
    read_out: Callable[[Tensor], Tensor],
    targets: np.ndarray,
    token_text: TokenText,
) -> list[list[Guess]]:
    """At every depth and the latest positions: the likeliest next token, and how likely the target is.

    `read_out` makes logits of the stream; `targets` (time,) are the tokens that came, and last the one explained.
    """
    depths = [calls[block].arguments[0][0] for block in blocks] + [calls[blocks[-1]].output[0]]
    wanted = torch.from_numpy(np.asarray(targets[-LENS_TOKENS:], np.int64))
    found = []
    for x in depths:
        chances = read_out(x[-LENS_TOKENS:]).softmax(-1)  # (time, vocabulary)
        best, likeliest = chances.max(-1)
        came = chances[torch.arange(len(chances)), wanted]
        names = [token_text(id) for id in likeliest.tolist()]
        found.append([Guess(*each) for each in zip(names, best.tolist(), came.tolist(), strict=True)])
    return found
