"""What reads a source: vectors at each of its places, and one thought vector for all of it.

A recurrent encoder reads ahead (left to right), back (right to left) or both ways; its thought is the state in which it
ends. A Transformer's is the mean of what it wrote. Neither depends on the padding after a row's end.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.layers.attention import Positions
from chainrule.layers.block_config import Shape
from chainrule.layers.cells import CELLS
from chainrule.layers.encoder_output import hide_padding
from chainrule.layers.recurrent import Recurrent, reverse

DIRECTIONS = ("ahead", "back", "both")


class RecurrentEncoder(nn.Module):
    def __init__(self, cell: str, width: int, num_layers: int, direction: str, residual: bool, dropout: float):
        super().__init__()
        self.direction = direction
        is_both = direction == "both"
        self.recurrent = Recurrent(
            CELLS[cell],
            width,
            width // 2 if is_both else width,
            num_layers,
            residual=residual,
            bidirectional=is_both,
            dropout=dropout,
        )

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(rows, places, width) -> the same shape, and (rows, width)."""
        turn = partial(_turned, lengths=lengths) if self.direction == "back" else _unchanged
        outputs, state = self.recurrent(turn(x), None, lengths)
        last = state[-self.recurrent.num_directions :]
        return turn(outputs), torch.cat([parts[0] for parts in last], -1)


def _turned(x: Tensor, lengths: Tensor) -> Tensor:
    return reverse(x.transpose(0, 1), lengths).transpose(0, 1)


def _unchanged(x: Tensor) -> Tensor:
    return x


class TransformerEncoder(nn.Module):
    def __init__(self, shape: Shape, num_layers: int):
        super().__init__()
        self.shape = shape
        self.blocks = nn.ModuleList(shape.make_block() for _ in range(num_layers))
        self.norm = shape.last_norm()

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        places = x.shape[1]
        positions = Positions(self.shape.turn(x, 0), hide_padding(lengths, places, x.dtype)[:, None])
        x = self.shape.place(x, 0)
        for block in self.blocks:
            x = block(x, positions)
        x = self.norm(x).masked_fill(torch.arange(places, device=x.device)[:, None] >= lengths[:, None, None], 0)
        return x, F.normalize(x.sum(1), dim=-1) * x.shape[-1] ** 0.5
