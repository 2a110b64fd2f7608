"""What reads a source: vectors at each of its places, and one thought vector for all of it.

A recurrent encoder reads ahead (left to right), back (right to left) or both ways; its thought is the state in which it
ends. A Transformer's is the mean of what it wrote. Neither depends on the padding after a row's end.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.layers.attention import Attention, Positions
from chainrule.layers.block import Block
from chainrule.layers.cells import CELLS
from chainrule.layers.feedforward import FeedForward
from chainrule.layers.joins import CrossAttention
from chainrule.layers.memory import hide_padding
from chainrule.layers.norm import RMSNorm
from chainrule.layers.positions import rotations
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


def make_block(width: int, num_heads: int, hidden_width: int, activation: str, dropout: float,
               cross: tuple[CrossAttention, nn.Module] | None = None) -> Block:  # fmt: skip
    """Of a Transformer that reads or writes: normed before, queries and keys too, no biases."""
    return Block(
        Attention(width, num_heads, num_heads, width // num_heads, False, is_normalised=True),
        FeedForward(width, hidden_width, activation, False),
        (RMSNorm(width), RMSNorm(width)),
        dropout=dropout,
        cross=cross,
    )


class TransformerEncoder(nn.Module):
    def __init__(self, width: int, num_layers: int, num_heads: int, hidden_width: int, activation: str, dropout: float):
        super().__init__()
        self.head_width = width // num_heads
        self.blocks = nn.ModuleList(
            make_block(width, num_heads, hidden_width, activation, dropout) for _ in range(num_layers)
        )
        self.norm = RMSNorm(width)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        places = x.shape[1]
        turn = rotations(0, places, self.head_width, 10000.0, x.device, x.dtype)
        positions = Positions(turn, hide_padding(lengths, places, x.dtype)[:, None])
        for block in self.blocks:
            x = block(x, positions)
        x = self.norm(x).masked_fill(torch.arange(places, device=x.device)[:, None] >= lengths[:, None, None], 0)
        return x, F.normalize(x.sum(1), dim=-1) * x.shape[-1] ** 0.5
