"""What writes a target with a source in mind: recurrent, begun by a thought, perhaps attentive; or a Transformer.

Both have `start` (what to remember of a source, and the state before the first token) and `read` (embedded tokens and a
state in, hidden vectors and a state out). A state is a dict of rows that come and go together.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from chainrule.layers.attention import Positions
from chainrule.layers.block import Block
from chainrule.layers.block_config import Shape
from chainrule.layers.cache import KeyValues
from chainrule.layers.cells import CELLS
from chainrule.layers.encoder_output import Memory
from chainrule.layers.joins import AdditiveAttention, DotAttention
from chainrule.layers.positions import First, hidden_future
from chainrule.layers.recurrent import Recurrent

State = dict[str, Any]  # rows of arrays, by name


class RecurrentDecoder(nn.Module):
    """h⁰ = tanh(W thought). With attention, the first layer asks, what it saw goes into the layers above it and into
    what is predicted from: o_t = tanh(W [h_t; seen_t]), as in the lecture. So a whole target is read at once.
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

    def start(self, memory: Tensor, lengths: Tensor, thought: Tensor, keeps: bool) -> State:
        begun = torch.tanh(self.bridge(thought)).unflatten(1, (self.num_layers, self.num_parts, self.width))
        layers = tuple(tuple(part.unbind(1)) for part in begun.unbind(1))
        if self.attention is None:
            return {"layers": layers}
        return {"layers": layers, "memory": Memory(self.attention.remember(memory), lengths)}

    def read(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        layers: tuple[tuple[Tensor, ...], ...] = state["layers"]
        count = len(self.first.cells)
        hidden, after = self.first(x, layers[:count])
        if self.attention is None:
            return hidden, {"layers": after}
        memory: Memory = state["memory"]
        seen = self.attention(hidden, memory)
        if self.above is not None:
            hidden, more = self.above(torch.cat([hidden, seen], -1), layers[count:])
            after = after + more
        return torch.tanh(self.combine(torch.cat([hidden, seen], -1))), {"layers": after, "memory": memory}

    def alignment(self, x: Tensor, state: State) -> Tensor | None:
        """α of every target token over the places of the source, (rows, time, places); None without attention."""
        if self.attention is None:
            return None
        layers: tuple[tuple[Tensor, ...], ...] = state["layers"]
        hidden, _ = self.first(x, layers[: len(self.first.cells)])
        return self.attention.weights(hidden, state["memory"])


class TransformerDecoder(nn.Module):
    def __init__(self, shape: Shape, num_layers: int):
        super().__init__()
        self.shape = shape
        self.blocks = nn.ModuleList(shape.make_block(looks=True) for _ in range(num_layers))
        self.norm = shape.last_norm()

    def start(self, memory: Tensor, lengths: Tensor, thought: Tensor, keeps: bool) -> State:
        """`keeps`: whether keys and values of the target are kept for tokens that come later."""
        remembered = [each for block in self._each() for each in block.cross_attention.remember(memory)]
        state: State = {"memory": Memory(remembered, lengths)}
        if keeps:
            like = memory.new_empty(self.shape.head_width)
            state["cache"] = KeyValues.start(len(self.blocks), len(memory), self.shape.num_heads, like)
        return state

    def read(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        memory: Memory = state["memory"]
        before: KeyValues | None = state.get("cache")
        cache = before.extend(x.shape[1]) if before else None
        first, bias = before.first if before else 0, memory.bias[:, None]
        x, positions = self.shape.place(x, first), self._positions(x, first)
        for index, block in enumerate(self._each()):
            key, value = memory.tensors[2 * index : 2 * index + 2]
            look = partial(block.cross_attention, key=key, value=value, bias=bias)
            x = block(x, positions, partial(cache.write, index) if cache else None, look)
        return self.norm(x), {"memory": memory} | ({"cache": cache} if cache else {})

    def _each(self) -> list[Block]:
        return list(self.blocks)  # type: ignore[arg-type]

    def _positions(self, x: Tensor, first: First) -> Positions:
        hidden = None if isinstance(first, int) else hidden_future(first, x.shape[1], x.dtype)
        return Positions(self.shape.turn(x, first), hidden)

    def alignment(self, x: Tensor, state: State) -> Tensor:
        """α of the last layer, the mean over its heads: (rows, time, places)."""
        memory: Memory = state["memory"]
        found: list[Tensor] = []

        def watch(block: Block, index: int, asked: Tensor) -> Tensor:
            key, value = memory.tensors[2 * index : 2 * index + 2]
            found.append(block.cross_attention.weights(asked, key, memory.bias[:, None]).mean(1))
            seen: Tensor = block.cross_attention(asked, key, value, memory.bias[:, None])
            return seen

        x, positions = self.shape.place(x, 0), self._positions(x, 0)
        for index, block in enumerate(self._each()):
            x = block(x, positions, None, partial(watch, block, index))
        return found[-1]
