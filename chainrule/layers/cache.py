"""Keys and values of what a batch has read, kept so that they need not be computed again.

A `KeyValues` is a state and stays what it is, but the buffers behind it have room for more rows and more tokens, and
what follows is written there: in place by the newest state of a buffer, into a copy by any other. So a step costs what
it adds, and a state that was stepped from may be stepped from again.
"""

import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chainrule.layers.positions import places


class _Buffers:
    """Keys of each layer, then values of each; zero where nothing was written: (rows, heads, tokens, head_width)."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self.tensors = tensors
        self.newest = 0  # the version of the state that may write


class KeyValues:
    """Of every layer: (rows, heads, tokens, head_width) each. Rows may be of different lengths."""

    def __init__(self, buffers: _Buffers, lengths: np.ndarray, limit: int | None) -> None:
        buffers.newest += 1
        self._buffers, self._version = buffers, buffers.newest
        self.lengths = lengths  # (rows,)
        self.longest = int(lengths.max(initial=0))
        self._is_even = bool((lengths == self.longest).all())
        self._limit = limit  # the most tokens that a row can have; None: any number
        self._new: Any = None  # where the tokens stand that are being written

    @classmethod
    def start(cls, num_layers: int, rows: int, heads: int, like: Tensor, limit: int | None = None) -> "KeyValues":
        """Nothing is read yet. `like` (..., head_width) tells width, type and device."""
        tensors = [like.new_zeros(rows, heads, 0, like.shape[-1]) for _ in range(2 * num_layers)]
        return cls(_Buffers(tensors), np.zeros(rows, np.int64), limit)

    @property
    def first(self) -> int | Tensor:
        """Where the next token stands: one place where all rows are equally long, else (rows,)."""
        return self.longest if self._is_even else torch.from_numpy(self.lengths).to(self._tensors[0].device)

    def extend(self, time: int) -> "KeyValues":
        """The state after `time` more tokens in every row; what it is to hold of them, each layer has to `write`."""
        after = KeyValues(self._with_room(len(self.lengths), self.longest + time), self.lengths + time, self._limit)
        first, every = self.first, slice(None)
        if isinstance(first, int):
            after._new = (every, every, slice(first, first + time))
        else:
            rows = torch.arange(len(first), device=first.device)
            after._new = (rows[:, None], every, places(first, time))  # finds (rows, time, heads, head_width)
        return after

    def write(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer for all that was read, given those of the new tokens."""
        tensors, rows, longest = self._tensors, len(self.lengths), self.longest
        keys = tensors[layer][:rows, :, :longest]
        values = tensors[layer + len(tensors) // 2][:rows, :, :longest]
        if not self._is_even:
            key, value = key.transpose(1, 2), value.transpose(1, 2)
        keys[self._new], values[self._new] = key, value
        return keys, values

    def shorten(self, count: int) -> "KeyValues":
        """Without the last so many tokens of every row, in the same buffers."""
        return KeyValues(self._buffers, self.lengths - count, self._limit)

    @property
    def memory(self) -> tuple[list[int], tuple[int, ...]]:
        """The addresses of keys of each layer, then of values, and their shape with all room there is.

        For kernels that write there by themselves.
        """
        tensors = self._tensors
        return [each.data_ptr() for each in tensors], tuple(tensors[0].shape)

    def __getitem__(self, rows: Any) -> "KeyValues":
        """A batch made of these rows, in buffers of its own."""
        tensors = [each[:, :, : self.longest][rows] for each in self._tensors]
        return KeyValues(_Buffers(tensors), self.lengths[rows], self._limit)

    def add_rows(self, others: "KeyValues") -> "KeyValues":
        """These rows after its own."""
        count, length = len(self.lengths), others.longest
        lengths = np.concatenate([self.lengths, others.lengths])
        buffers = self._with_room(len(lengths), max(self.longest, length))
        for each, other in zip(buffers.tensors, others._tensors, strict=True):
            place = each[count : len(lengths)]
            place[:, :, :length] = other[: len(others.lengths), :, :length]
            place[:, :, length:] = 0
        return KeyValues(buffers, lengths, self._limit)

    def remove_row(self, row: int) -> "KeyValues":
        """Without this row, whose place the last one takes. No state in the same buffers can be used any more."""
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
        """Whether this is the newest state, and neither gradients nor torch's inference mode forbid to write."""
        held = self._tensors[0]
        is_plain = not held.requires_grad and held.is_inference() == torch.is_inference_mode_enabled()
        return self._version == self._buffers.newest and is_plain and not torch.is_grad_enabled()

    def _with_room(self, rows: int, time: int) -> _Buffers:
        """Its own buffers if they may be written and are large enough, else copies, of twice the size where not."""
        rows_held, heads, time_held, width = self._tensors[0].shape
        if self._may_write and rows <= rows_held and time <= time_held:
            return self._buffers
        rows_room = rows_held if rows <= rows_held else max(rows, 2 * rows_held)
        time_room = time_held if time <= time_held else min(max(time, 2 * time_held), self._limit or sys.maxsize)
        tensors = [each.new_zeros(rows_room, heads, time_room, width) for each in self._tensors]
        for new, old in zip(tensors, self._tensors, strict=True):
            new[: len(self.lengths), :, : self.longest] = old[: len(self.lengths), :, : self.longest]
        return _Buffers(tensors)
