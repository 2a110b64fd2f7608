"""The values of every gate of a recurrent cell at every step, computed again from its inputs and outputs.

The cells do not keep their gates while they run. The equations are those of layers/cells.py.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from chainrule.layers.cells import GRU, LSTM, UGRNN, Cell, Elman, Parts

TANH, LOGISTIC, RELU = "tanh", "logistic", "relu"


def gates(cell: Cell, inputs: Tensor, before: Parts, outputs: Tensor) -> dict[str, tuple[str, Tensor]]:
    """{name: (nonlinearity, values)}: inputs (time, batch, input width), outputs and values (time, batch, width)."""
    if isinstance(cell, Elman):
        return {"h": (cell.nonlinearity, outputs)}
    past = torch.cat([before[0].unsqueeze(0), outputs[:-1]])  # h_{t-1} of every step
    projected, recalled = cell.project(inputs), F.linear(past, cell.recurrent_weight)
    if isinstance(cell, GRU):
        recalled = recalled + cell.second_bias()
        reset, update = (projected + recalled)[..., : 2 * cell.width].sigmoid().chunk(2, -1)
        new = torch.tanh(projected[..., 2 * cell.width :] + reset * recalled[..., 2 * cell.width :])
        return {"r": (LOGISTIC, reset), "z": (LOGISTIC, update), "n": (TANH, new)}
    sums = (projected + recalled).chunk(cell.gates, -1)
    if isinstance(cell, UGRNN):
        return {"R": (TANH, sums[0].tanh()), "G": (LOGISTIC, sums[1].sigmoid())}
    assert isinstance(cell, LSTM)
    values = {name: (LOGISTIC, each.sigmoid()) for name, each in zip("if_o", sums, strict=True) if name != "_"}
    return values | {"g": (TANH, sums[2].tanh())}
