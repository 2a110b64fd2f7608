"""The key-value cache: keys and values of the tokens that a batch has read, so that they are computed only once.

A `KeyValues` is a state and never changes, but the buffers behind it have room for more rows and more tokens, and new
tokens are written there: in place by the newest state of a buffer, into a copy by any other. So a step costs only what
it adds, and decoding may branch from any earlier state.
"""

import sys

import numpy as np
import torch
from torch import Tensor

from chainrule.layers.positions import places

_Index = tuple[slice | Tensor, slice, slice | Tensor]  # of rows, heads and tokens


class _Buffers:
    """Tensors (rows, heads, tokens, head_width): keys of each layer, then values; zero where nothing was written."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self.tensors = tensors
        self.newest = 0  # the version of the one state that may write in place


class KeyValues:
    """The keys and values of every layer, (rows, heads, tokens, head_width) each. Rows may have different lengths."""

    def __init__(self, buffers: _Buffers, lengths: np.ndarray, limit: int | None) -> None:
        buffers.newest += 1
        self._buffers, self._version = buffers, buffers.newest
        self.lengths = lengths  # (rows,)
        self.longest = int(lengths.max(initial=0))
        self._is_even = bool((lengths == self.longest).all())
        self._limit = limit  # the most tokens that there is room for unless more are asked for; None: no limit
        self._new: _Index | None = None  # where in the buffers the tokens of the last `extend` are written

    @classmethod
    def start(cls, num_layers: int, rows: int, heads: int, like: Tensor, limit: int | None = None) -> "KeyValues":
        """An empty cache, its head width, type and device those of `like` (..., head_width)."""
        tensors = [like.new_zeros(rows, heads, 0, like.shape[-1]) for _ in range(2 * num_layers)]
        return cls(_Buffers(tensors), np.zeros(rows, np.int64), limit)

    @property
    def first(self) -> int | Tensor:
        """The position of the next token: one number where all rows are equally long, else one for each, (rows,)."""
        return self.longest if self._is_even else torch.from_numpy(self.lengths).to(self._tensors[0].device)

    def extend(self, time: int) -> "KeyValues":
        """The state after `time` more tokens in every row, whose keys and values each layer then has to `write`."""
        after = KeyValues(self._with_room(len(self.lengths), self.longest + time), self.lengths + time, self._limit)
        first, every = self.first, slice(None)
        if isinstance(first, int):
            after._new = (every, every, slice(first, first + time))
        else:
            rows = torch.arange(len(first), device=first.device)
            after._new = (rows[:, None], every, places(first, time))  # finds (rows, time, heads, head_width)
        return after

    def write(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store a layer's keys and values of the new tokens; returns those of all tokens so far."""
        tensors, rows, longest = self._tensors, len(self.lengths), self.longest
        keys = tensors[layer][:rows, :, :longest]
        values = tensors[layer + len(tensors) // 2][:rows, :, :longest]
        if not self._is_even:
            key, value = key.transpose(1, 2), value.transpose(1, 2)
        assert self._new is not None, "extend makes room before anything is written"
        keys[self._new], values[self._new] = key, value
        return keys, values

    def shorten(self, count: int) -> "KeyValues":
        """The state without the last `count` tokens of every row, in the same buffers."""
        return KeyValues(self._buffers, self.lengths - count, self._limit)

    @property
    def buffer_addresses(self) -> tuple[list[int], tuple[int, ...]]:
        """For kernels that write into the buffers: where the keys of each layer begin, then the values of each, and
        the shape that all buffers have."""
        tensors = self._tensors
        return [each.data_ptr() for each in tensors], tuple(tensors[0].shape)

    def __getitem__(self, rows: np.ndarray) -> "KeyValues":
        """The cache of a batch made of these rows, in buffers of its own."""
        tensors = [each[:, :, : self.longest][rows] for each in self._tensors]
        return KeyValues(_Buffers(tensors), self.lengths[rows], self._limit)

    def add_rows(self, others: "KeyValues") -> "KeyValues":
        """The cache of a batch with the rows of `others` after its own."""
        count, length = len(self.lengths), others.longest
        lengths = np.concatenate([self.lengths, others.lengths])
        buffers = self._with_room(len(lengths), max(self.longest, length))
        for each, other in zip(buffers.tensors, others._tensors, strict=True):
            place = each[count : len(lengths)]
            place[:, :, :length] = other[: len(others.lengths), :, :length]
            place[:, :, length:] = 0
        return KeyValues(buffers, lengths, self._limit)

    def remove_row(self, row: int) -> "KeyValues":
        """The cache without this row; the last row takes its place. States that share its buffers become invalid."""
        last = len(self.lengths) - 1
        kept = np.arange(last)
        kept[row:][:1] = last
        if not self._may_write:
            return self[kept]
        tensors, self._buffers.tensors = self._tensors, []
        for each in tensors:
            each[row] = each[last]
        return KeyValues(_Buffers(tensors), self.lengths[kept], self._limit)

    @property
    def _tensors(self) -> list[Tensor]:
        assert self._buffers.tensors, "this state was given away when a row was removed"
        return self._buffers.tensors

    @property
    def _may_write(self) -> bool:
        """Whether this is the newest state of its buffers, and gradients and torch's inference mode allow writing."""
        held = self._tensors[0]
        is_plain = not held.requires_grad and held.is_inference() == torch.is_inference_mode_enabled()
        return self._version == self._buffers.newest and is_plain and not torch.is_grad_enabled()

    def _with_room(self, rows: int, time: int) -> _Buffers:
        """The same buffers if they may be written to and are large enough; else copies, twice as large if needed."""
        rows_held, heads, time_held, width = self._tensors[0].shape
        if self._may_write and rows <= rows_held and time <= time_held:
            return self._buffers
        rows_room = rows_held if rows <= rows_held else max(rows, 2 * rows_held)
        time_room = time_held if time <= time_held else max(time, min(2 * time_held, self._limit or sys.maxsize))
        tensors = [each.new_zeros(rows_room, heads, time_room, width) for each in self._tensors]
        for new, old in zip(tensors, self._tensors, strict=True):
            new[: len(self.lengths), :, : self.longest] = old[: len(self.lengths), :, : self.longest]
        return _Buffers(tensors)
