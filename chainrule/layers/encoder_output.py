"""What an encoder has written, for a decoder to look at: vectors at every place of the source, for rows of any length.

A `Memory` is part of a state: rows can be picked, added and removed, whatever the lengths of their sources.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


class Memory:
    """Tensors (rows, places, width) that belong together, such as keys and values; a row has `lengths` places."""

    def __init__(self, tensors: Sequence[Tensor], lengths: Tensor):
        self.tensors, self.lengths = tuple(tensors), lengths

    @property
    def places(self) -> int:
        return self.tensors[0].shape[1]

    @property
    def bias(self) -> Tensor:
        """What is added to scores: 0 where a row has a place, -inf beyond its end: (rows, 1, places)."""
        return hide_padding(self.lengths, self.places, self.tensors[0].dtype)

    def __getitem__(self, rows: Any) -> "Memory":
        lengths = self.lengths[rows]
        longest = int(lengths.max()) if len(lengths) else 0
        return Memory([each[rows][:, :longest] for each in self.tensors], lengths)

    def add_rows(self, others: "Memory") -> "Memory":
        longest = max(self.places, others.places)
        both = zip(self.tensors, others.tensors, strict=True)
        tensors = [torch.cat([_grown(mine, longest), _grown(theirs, longest)]) for mine, theirs in both]
        return Memory(tensors, torch.cat([self.lengths, others.lengths]))

    def remove_row(self, row: int) -> "Memory":
        """Without this row, whose place the last one takes."""
        kept = torch.arange(len(self.lengths) - 1)
        kept[row:][:1] = len(self.lengths) - 1
        return self[kept]


def hide_padding(lengths: Tensor, places: int, dtype: torch.dtype) -> Tensor:
    """0 for places within the lengths and -inf beyond: (rows, 1, places)."""
    beyond = torch.arange(places, device=lengths.device) >= lengths[:, None]
    return torch.zeros(beyond.shape, dtype=dtype, device=lengths.device).masked_fill_(beyond, -torch.inf)[:, None]


def _grown(tensor: Tensor, places: int) -> Tensor:
    return F.pad(tensor, (0, 0, 0, places - tensor.shape[1]))
