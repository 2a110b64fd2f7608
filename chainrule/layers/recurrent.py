"""A stack of recurrent layers: deep, with residual connections and dropout, one or both directions, padded batches."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.layers.cells import Cell, Parts, after_end

State = tuple[Parts, ...]  # an entry per layer, or two (ahead, back) where both directions are read


class Recurrent(nn.Module):
    """Every layer reads the one before: x ← dropout(cell(x)), or x + dropout(cell(x)) where it is residual.

    The first layer is never residual: it reads the embedding of the current word, which should not predict itself.
    `cell` makes a cell of an input width, a width and a recurrent dropout: a class of cells.py, or a partial of one.
    """

    def __init__(
        self,
        cell: Callable[[int, int, float], Cell],
        input_width: int,
        width: int,
        num_layers: int = 1,
        *,
        residual: bool = False,
        bidirectional: bool = False,
        input_dropout: float = 0.0,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ):
        super().__init__()
        self.residual, self.input_dropout, self.dropout = residual, input_dropout, dropout
        self.num_directions = 2 if bidirectional else 1
        self.output_width = width * self.num_directions
        widths = [input_width] + [self.output_width] * (num_layers - 1)
        self.cells = nn.ModuleList(
            cell(each, width, recurrent_dropout) for each in widths for _ in range(self.num_directions)
        )

    def start(self, batch_size: int) -> State:
        return tuple(cell.start(batch_size) for cell in self.cells)  # type: ignore[operator]

    def forward(
        self, inputs: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """inputs (batch, time, input width) -> outputs (batch, time, output width) and the new state.

        Rows may end after `lengths` (batch) steps; their outputs are 0 from there on. Memory is time-first within, so
        inputs that are a transposed view of (time, batch, input width) are not copied.
        """
        state = self.start(len(inputs)) if state is None else state
        hidden = F.dropout(inputs.transpose(0, 1), self.input_dropout, self.training)  # (time, batch, width)
        after: State = ()
        for first in range(0, len(self.cells), self.num_directions):
            layer = slice(first, first + self.num_directions)
            outputs, parts = self._read_layer(layer, hidden, state[layer], lengths)
            outputs = F.dropout(outputs, self.dropout, self.training)
            hidden = hidden + outputs if self.residual and first else outputs
            after += parts
        if lengths is not None:
            hidden = hidden.masked_fill(after_end(len(hidden), lengths).unsqueeze(2), 0)
        return hidden.transpose(0, 1), after

    def _read_layer(self, layer: slice, inputs: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """(time, batch, width) -> what each direction read, side by side, and their states."""
        ahead, *back = self.cells[layer]
        outputs, parts = ahead(inputs, state[0], lengths)
        if not back:
            return outputs, (parts,)
        reversed_outputs, reversed_parts = back[0](reverse(inputs, lengths), state[1], lengths)
        return torch.cat([outputs, reverse(reversed_outputs, lengths)], 2), (parts, reversed_parts)


def reverse(sequence: Tensor, lengths: Tensor | None) -> Tensor:
    """A sequence (time, batch, width) with every row reversed, up to its own length."""
    if lengths is None:
        return sequence.flip(0)
    time, batch = sequence.shape[:2]
    steps = torch.arange(time, device=lengths.device).unsqueeze(1)
    sources = torch.where(steps < lengths, lengths - 1 - steps, steps)  # (time, batch)
    places = sources * batch + torch.arange(batch, device=lengths.device)
    return sequence.flatten(0, 1).index_select(0, places.flatten()).view_as(sequence)
