"""Inside a recurrent model: what its gates and its state did at every token, and how long a token is remembered.

How long a token lasts is the size of ∂ log p(next token) / ∂ (vector of a token) by how far back the token stands.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from chainrule.analysis.explain.gradient import gradients
from chainrule.analysis.explain.record import read
from chainrule.layers import cells
from chainrule.layers.gates import gates

MEANINGS = dict(i="write", f="keep", g="new", o="show", r="reset", z="keep", n="new", G="keep", R="new")  # noqa: C408


@dataclass(frozen=True)
class Layer:
    """Each gate, and each part of the state: (time, width)."""

    gates: dict[str, np.ndarray]
    state: dict[str, np.ndarray]


@dataclass(frozen=True)
class Inside:
    kind: ClassVar = "gates"
    layers: list[Layer]
    influence: list[float]  # of each token read, the latest last; its gradient's norm
    half_within: int  # tokens back within which half of all influence lies
    most_within: int  # and nine tenths


def look_inside(model: Any, ids: np.ndarray, token: int) -> Inside:
    _, calls = read(model, ids)
    layers = []
    for cell in model.recurrent.cells:
        inputs, state = calls[cell].arguments[:2]
        layers.append(_layer(cell, inputs, state, calls[cell].output[0]))
    influence = gradients(model, ids, token)["embedding"][1].norm(dim=-1).numpy()
    return Inside(layers, influence.tolist(), within(influence, 0.5), within(influence, 0.9))


def within(influence: np.ndarray, share: float) -> int:
    """How many of the latest tokens have this share of the whole."""
    reached = np.cumsum(influence[::-1].astype(np.float64))
    return int(np.searchsorted(reached, share * reached[-1] * (1 - 1e-9)) + 1) if reached[-1] > 0 else 0


@torch.no_grad()
def _layer(cell: cells.Cell, inputs: Tensor, state: cells.Parts, outputs: Tensor) -> Layer:
    """inputs and outputs (time, 1, width): the batch is of one row."""
    found = {name: values for name, (_, values) in gates(cell, inputs, state, outputs).items() if name != "h"}
    states = {"h": outputs}
    if isinstance(cell, cells.LSTM):
        states["c"] = _remembered(found["f"], found["i"] * found["g"], state[1])
    return Layer(
        {f"{name} ({MEANINGS[name]})": values[:, 0].numpy() for name, values in found.items()},
        {name: values[:, 0].numpy() for name, values in states.items()},
    )


def _remembered(keep: Tensor, written: Tensor, start: Tensor) -> Tensor:
    """c_t = f_t ⊙ c_{t-1} + i_t ⊙ g_t for all t."""
    found, memory = [], start
    for kept, new in zip(keep, written, strict=True):
        memory = kept * memory + new
        found.append(memory)
    return torch.stack(found)
