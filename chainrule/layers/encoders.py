"""Encoders read a source and give a vector for each of its positions, and one context vector for all of it.

A recurrent encoder reads ahead (left to right), back (right to left) or both ways; its context vector is its last
state. A Transformer's is the mean of its outputs, scaled to the length √width. Neither depends on the padding.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.layers.attention import Positions
from chainrule.layers.block_config import BlockConfig
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
        """x (rows, places, width) -> outputs of the same shape, and the context vectors (rows, width)."""
        outputs, state = self.recurrent(self._in_order(x, lengths), None, lengths)
        last = state[-self.recurrent.num_directions :]
        return self._in_order(outputs, lengths), torch.cat([parts[0] for parts in last], -1)

    def _in_order(self, x: Tensor, lengths: Tensor) -> Tensor:
        """x (rows, places, width), with the places of each row reversed where it is read from right to left."""
        return reverse(x.transpose(0, 1), lengths).transpose(0, 1) if self.direction == "back" else x


class TransformerEncoder(nn.Module):
    def __init__(self, config: BlockConfig, num_layers: int):
        super().__init__()
        self.config = config
        self.blocks = nn.ModuleList(config.make_block() for _ in range(num_layers))
        self.norm = config.last_norm()

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """x (rows, places, width) -> outputs of the same shape, and the context vectors (rows, width)."""
        places = x.shape[1]
        positions = Positions(self.config.rotation(x, 0), hide_padding(lengths, places, x.dtype)[:, None])
        x = self.config.add_positions(x, 0)
        for block in self.blocks:
            x = block(x, positions)
        x = self.norm(x).masked_fill(torch.arange(places, device=x.device)[:, None] >= lengths[:, None, None], 0)
        return x, F.normalize(x.sum(1), dim=-1) * x.shape[-1] ** 0.5
