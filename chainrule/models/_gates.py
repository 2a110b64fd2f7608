"""What the gates and the state of a recurrent model did at every token, and how long a token is remembered.

How long a token lasts is the size of ∂ log p(next token) / ∂ (vector of a token) by how far back the token stands.
"""

import numpy as np
import torch
from torch import Tensor

from chainrule.layers import cells
from chainrule.layers.gates import gates
from chainrule.models.explanation import GatedLayer

MEANINGS = dict(i="write", f="keep", g="new", o="show", r="reset", z="keep", n="new", G="keep", R="new")  # noqa: C408


def within(influence: np.ndarray, share: float) -> int:
    """How many of the latest tokens have this share of all influence."""
    reached = np.cumsum(influence[::-1].astype(np.float64))
    return int(np.searchsorted(reached, share * reached[-1] * (1 - 1e-9)) + 1) if reached[-1] > 0 else 0


@torch.no_grad()
def gated_layer(cell: cells.Cell, inputs: Tensor, state: cells.Parts, outputs: Tensor) -> GatedLayer:
    """The gates and states of one cell; inputs and outputs (time, 1, width): the batch is of one row."""
    found = {name: values for name, (_, values) in gates(cell, inputs, state, outputs).items() if name != "h"}
    states = {"h": outputs}
    if isinstance(cell, cells.LSTM):
        states["c"] = _cell_states(found["f"], found["i"] * found["g"], state[1])
    return GatedLayer(
        {f"{name} ({MEANINGS[name]})": values[:, 0].numpy() for name, values in found.items()},
        {name: values[:, 0].numpy() for name, values in states.items()},
    )


def _cell_states(keep: Tensor, written: Tensor, start: Tensor) -> Tensor:
    """c_t = f_t ⊙ c_{t-1} + i_t ⊙ g_t for all t."""
    found, latest = [], start
    for kept, new in zip(keep, written, strict=True):
        latest = kept * latest + new
        found.append(latest)
    return torch.stack(found)
