"""Decoders write a target, given the output of an encoder: recurrent ones, with or without attention, or a Transformer.

Both have `start` (the state before the first token of a target) and `read` (embedded tokens and a state in, hidden
vectors and a state out). A state is a dict whose entries have one row per source.
"""

from functools import partial
from typing import TypedDict

import torch
from torch import Tensor, nn

from chainrule.layers.attention import Positions
from chainrule.layers.block import Block
from chainrule.layers.block_config import BlockConfig
from chainrule.layers.cache import KeyValues
from chainrule.layers.cells import CELLS, Parts
from chainrule.layers.encoder_output import EncoderOutput
from chainrule.layers.joins import AdditiveAttention, DotAttention
from chainrule.layers.positions import First, hidden_future
from chainrule.layers.recurrent import Recurrent


class DecoderState(TypedDict, total=False):
    layers: tuple[Parts, ...]  # of a recurrent decoder
    encoder_output: EncoderOutput  # of every decoder with attention
    cache: KeyValues  # of a Transformer that reads more tokens later


class RecurrentDecoder(nn.Module):
    """The context vector c of the source starts every layer: h⁰ = tanh(W c).

    With attention, the first layer's states are the queries; what it attends to is read by the layers above and is
    part of what the next token is predicted from, o_t = tanh(W [h_t; context_t]) (Luong et al., 2015). No step has to
    wait for the attention of the one before, so a whole target is read at once.
    """

    def __init__(self, cell: str, width: int, num_layers: int, join: str, residual: bool, dropout: float):
        super().__init__()
        self.width, self.num_parts = width, CELLS[cell].num_parts
        self.attention: AdditiveAttention | DotAttention | None = None
        if join == "additive":
            self.attention = AdditiveAttention(width, width, width)
        elif join == "dot":
            self.attention = DotAttention(width, width)
        first = num_layers if self.attention is None else 1
        self.first = Recurrent(CELLS[cell], width, width, first, residual=residual, dropout=dropout)
        self.above = None
        if self.attention is not None and num_layers > 1:
            self.above = Recurrent(CELLS[cell], 2 * width, width, num_layers - 1, residual=residual, dropout=dropout)
        if self.attention is not None:
            self.combine = nn.Linear(2 * width, width)
        self.num_layers = num_layers
        self.bridge = nn.Linear(width, num_layers * self.num_parts * width)

    def start(self, outputs: Tensor, lengths: Tensor, context: Tensor, is_continued: bool) -> DecoderState:
        """outputs (rows, places, width) of an encoder, and its context vectors (rows, width)."""
        begun = torch.tanh(self.bridge(context)).unflatten(1, (self.num_layers, self.num_parts, self.width))
        layers = tuple(tuple(part.unbind(1)) for part in begun.unbind(1))
        if self.attention is None:
            return {"layers": layers}
        source = EncoderOutput(self.attention.project_source(outputs), lengths)
        return {"layers": layers, "encoder_output": source}

    def read(self, x: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        layers = state["layers"]
        count = len(self.first.cells)
        hidden, after = self.first(x, layers[:count])
        if self.attention is None:
            return hidden, {"layers": after}
        source = state["encoder_output"]
        context = self.attention(hidden, source)
        if self.above is not None:
            hidden, more = self.above(torch.cat([hidden, context], -1), layers[count:])
            after = after + more
        output = torch.tanh(self.combine(torch.cat([hidden, context], -1)))
        return output, {"layers": after, "encoder_output": source}

    def alignment(self, x: Tensor, state: DecoderState) -> Tensor | None:
        """The attention α of every target token to the source, (rows, time, places); None without attention."""
        if self.attention is None:
            return None
        layers = state["layers"]
        hidden, _ = self.first(x, layers[: len(self.first.cells)])
        return self.attention.weights(hidden, state["encoder_output"])


class TransformerDecoder(nn.Module):
    def __init__(self, config: BlockConfig, num_layers: int):
        super().__init__()
        self.config = config
        self.blocks = nn.ModuleList(config.make_block(has_cross_attention=True) for _ in range(num_layers))
        self.norm = config.last_norm()

    def start(self, outputs: Tensor, lengths: Tensor, context: Tensor, is_continued: bool) -> DecoderState:
        """`is_continued`: whether `read` will be called more than once, so that keys and values must be cached."""
        projected = [each for block in self._each() for each in block.cross_attention.project_source(outputs)]
        state: DecoderState = {"encoder_output": EncoderOutput(projected, lengths)}
        if is_continued:
            like = outputs.new_empty(self.config.head_width)
            state["cache"] = KeyValues.start(len(self.blocks), len(outputs), self.config.num_heads, like)
        return state

    def read(self, x: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        source, before = state["encoder_output"], state.get("cache")
        cache = before.extend(x.shape[1]) if before else None
        first, bias = before.first if before else 0, source.bias[:, None]
        x, positions = self.config.add_positions(x, first), self._positions(x, first)
        for index, block in enumerate(self._each()):
            key, value = source.tensors[2 * index : 2 * index + 2]
            cross_attend = partial(block.cross_attention, key=key, value=value, bias=bias)
            x = block(x, positions, partial(cache.write, index) if cache else None, cross_attend)
        after: DecoderState = {"encoder_output": source}
        if cache:
            after["cache"] = cache
        return self.norm(x), after

    def _each(self) -> list[Block]:
        return list(self.blocks)  # type: ignore[arg-type]

    def _positions(self, x: Tensor, first: First) -> Positions:
        hidden = None if isinstance(first, int) else hidden_future(first, x.shape[1], x.dtype)
        return Positions(self.config.rotation(x, first), hidden)

    def alignment(self, x: Tensor, state: DecoderState) -> Tensor:
        """The attention α of the last layer to the source, the mean over its heads: (rows, time, places)."""
        source = state["encoder_output"]
        found: list[Tensor] = []

        def cross_attend(block: Block, index: int, x: Tensor) -> Tensor:
            key, value = source.tensors[2 * index : 2 * index + 2]
            found.append(block.cross_attention.weights(x, key, source.bias[:, None]).mean(1))
            attended: Tensor = block.cross_attention(x, key, value, source.bias[:, None])
            return attended

        x, positions = self.config.add_positions(x, 0), self._positions(x, 0)
        for index, block in enumerate(self._each()):
            x = block(x, positions, None, partial(cross_attend, block, index))
        return found[-1]
