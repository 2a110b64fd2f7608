"""The output of an encoder: vectors for every position of the source, which the attention of a decoder reads.

An `EncoderOutput` is part of a state: rows can be selected, added and removed, whatever the lengths of their sources.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


class EncoderOutput:
    """Tensors (rows, places, width) that belong together, such as keys and values; row i has lengths[i] places."""

    def __init__(self, tensors: Sequence[Tensor], lengths: Tensor):
        self.tensors, self.lengths = tuple(tensors), lengths

    @property
    def places(self) -> int:
        return self.tensors[0].shape[1]

    @property
    def bias(self) -> Tensor:
        """A bias on attention scores: 0 for the places of a row, -inf for the padding after them: (rows, 1, places)."""
        return hide_padding(self.lengths, self.places, self.tensors[0].dtype)

    def __getitem__(self, rows: Tensor | np.ndarray) -> "EncoderOutput":
        lengths = self.lengths[rows]
        longest = int(lengths.max()) if len(lengths) else 0
        return EncoderOutput([each[rows][:, :longest] for each in self.tensors], lengths)

    def add_rows(self, others: "EncoderOutput") -> "EncoderOutput":
        longest = max(self.places, others.places)
        both = zip(self.tensors, others.tensors, strict=True)
        tensors = [torch.cat([_grown(mine, longest), _grown(theirs, longest)]) for mine, theirs in both]
        return EncoderOutput(tensors, torch.cat([self.lengths, others.lengths]))

    def remove_row(self, row: int) -> "EncoderOutput":
        """The rows without this one; the last row takes its place."""
        kept = torch.arange(len(self.lengths) - 1)
        kept[row:][:1] = len(self.lengths) - 1
        return self[kept]


def hide_padding(lengths: Tensor, places: int, dtype: torch.dtype) -> Tensor:
    """A bias of 0 for places within the lengths and -inf for padding: (rows, 1, places)."""
    beyond = torch.arange(places, device=lengths.device) >= lengths[:, None]
    return torch.zeros(beyond.shape, dtype=dtype, device=lengths.device).masked_fill_(beyond, -torch.inf)[:, None]


def _grown(tensor: Tensor, places: int) -> Tensor:
    return F.pad(tensor, (0, 0, 0, places - tensor.shape[1]))
