"""Inside a Transformer: where every head looks, what every layer would guess, and who made the chosen token's logit.

The residual stream is a sum, and a norm whose scale is held at what it was is linear. So the logit of a token is a sum
too, one term for each vector that was ever added to the stream: the embedding, every head, every feed-forward network,
the biases (Elhage et al. 2021). "Lens": the stream after each layer, read by the output as if it were the last
(nostalgebraist 2020).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.analysis.explain.record import Call, read
from chainrule.layers import positions
from chainrule.layers.attention import Attention, Positions
from chainrule.layers.norm import RMSNorm
from chainrule.text.base import Tokenizer

LENS_TOKENS = 12


@dataclass(frozen=True)
class Contribution:
    layer: int | None  # from 1; None: before and after the layers
    part: str  # embedding, n-grams, position, head 1 ..., feed-forward, bias
    logit: float


@dataclass(frozen=True)
class Guess:
    """What the stream at one depth says of what comes after one of the latest positions."""

    token: str
    probability: float
    probability_of_token: float  # of the one that is explained, or that did come


@dataclass(frozen=True)
class Inside:
    kind: ClassVar = "transformer"
    attention: np.ndarray  # (layers, heads, time, time): softmax weights of every query over what it can see
    lens: list[list[Guess]]  # by depth, 0 the embeddings; then by position, the latest LENS_TOKENS
    contributions: list[Contribution]  # they add up to the logit, before a cap on it
    logit: float
    capped_logit: float


@torch.no_grad()
def look_inside(model: Any, ids: np.ndarray, token: int, tokenizer: Tokenizer) -> Inside:
    """Why this Transformer expects `token` after `ids`."""
    hidden, calls = read(model, ids)
    attention = torch.stack([_weights(block.attention, calls) for block in model.blocks])
    parts = _trace(model, ids, calls)
    weight, bias = model._output_layer()
    found = [Contribution(layer, part, float(vector @ weight[token])) for layer, part, vector in parts]
    if bias is not None:
        found.append(Contribution(None, "output bias", float(bias[token])))
    logit = float(F.linear(hidden[-1], weight, bias)[token])
    return Inside(
        attention.numpy(),
        _lens(model, calls, np.append(ids[1:], token), tokenizer),
        found,
        logit,
        float(model.output(hidden[-1])[token]),
    )


def _weights(attention: Attention, calls: dict[nn.Module, Call]) -> Tensor:
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


Part = tuple[int | None, str, Tensor]


def _trace(model: Any, ids: np.ndarray, calls: dict[nn.Module, Call]) -> list[Part]:
    """Every vector whose sum is what the output reads at the last position."""
    parts = _embedded(model, ids, calls)
    for layer, block in enumerate(model.blocks, 1):
        parts += _heads(layer, block.attention, calls)
        if not block.is_pre:
            parts = _normed(parts, block.attention_norm, layer, calls)
        parts.append((layer, "feed-forward", calls[block.feedforward].output[0, -1]))
        if not block.is_pre:
            parts = _normed(parts, block.feedforward_norm, layer, calls)
    return _normed(parts, model.norm, None, calls)


def _embedded(model: Any, ids: np.ndarray, calls: dict[nn.Module, Call]) -> list[Part]:
    """Concatenated positions are vectors that are zero where the token's is not."""
    config = model.config
    room = config.width_of_positions if config.is_concatenated else 0
    parts: list[Part] = [(None, "embedding", F.pad(calls[model.embedding].output[0, -1], (0, room)))]
    if config.ngram_order:
        parts.append((None, "n-grams", F.pad(calls[model.ngrams].output[0][0, -1], (0, room))))
    if config.positions in positions.AT_INPUT:
        last, width = len(ids) - 1, config.width_of_positions
        place = model.positions(last, 1) if config.positions == "learned" else positions.sinusoids(last, 1, width)
        parts.append((None, "position", F.pad(place[0], (config.width - width, 0))))
    if config.embedding_norm:
        total = torch.stack([vector for _, _, vector in parts]).sum(0)
        scale = F.rms_norm(total, total.shape).norm() / total.norm()
        parts = [(layer, part, vector * scale) for layer, part, vector in parts]
    return parts


def _heads(layer: int, attention: Attention, calls: dict[nn.Module, Call]) -> list[Part]:
    """What each head adds to the stream: its columns of the output matrix times what it gathered."""
    gathered = calls[attention.output].arguments[0][0, -1].split(attention.head_width)
    columns = attention.output.weight.split(attention.head_width, 1)
    parts: list[Part] = [
        (layer, f"head {head}", matrix @ vector)
        for head, (matrix, vector) in enumerate(zip(columns, gathered, strict=True), 1)
    ]
    if attention.output.bias is not None:
        parts.append((layer, "attention bias", attention.output.bias))
    return parts


def _normed(parts: list[Part], norm: nn.Module, layer: int | None, calls: dict[nn.Module, Call]) -> list[Part]:
    """All parts as they are after a norm whose scale is held at what it was for their sum."""
    if isinstance(norm, nn.Identity):
        return parts
    through = _linear(norm, calls[norm].arguments[0][0, -1])
    parts = [(each, part, through(vector)) for each, part, vector in parts]
    bias = getattr(norm, "bias", None)
    return parts if bias is None else [*parts, (layer, "norm bias", bias)]


def _linear(norm: nn.Module, x: Tensor) -> Callable[[Tensor], Tensor]:
    if isinstance(norm, RMSNorm):
        gain = norm.weight * (x.square().mean() + norm.epsilon).rsqrt()
        return lambda vector: vector * gain
    assert isinstance(norm, nn.LayerNorm)
    scaled = norm.weight * (x.var(correction=0) + norm.eps).rsqrt()
    return lambda vector: (vector - vector.mean()) * scaled


def _lens(model: Any, calls: dict[nn.Module, Call], targets: np.ndarray, tokenizer: Tokenizer) -> list[list[Guess]]:
    """Every depth, at the latest positions: its likeliest next token, and how likely the one that came is to it."""
    depths = [calls[block].arguments[0][0] for block in model.blocks] + [calls[model.blocks[-1]].output[0]]
    found = []
    for x in depths:
        chances = model.output(model.norm(x[-LENS_TOKENS:])).softmax(-1)  # (time, vocabulary)
        best, likeliest = chances.max(-1)
        came = chances[torch.arange(len(chances)), torch.from_numpy(np.asarray(targets[-LENS_TOKENS:], np.int64))]
        names = [tokenizer.token_text(id) for id in likeliest.tolist()]
        found.append([Guess(*each) for each in zip(names, best.tolist(), came.tolist(), strict=True)])
    return found
