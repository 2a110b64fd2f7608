"""Weights in eight bits: each row of a matrix is whole numbers from -127 to 127 times one scale of its own."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from chainrule.kernels.changes import CHANGES


@dataclass(frozen=True)
class Int8:
    codes: np.ndarray  # (outputs, width), int8
    scales: np.ndarray  # (outputs,), float32

    @classmethod
    def of(cls, weight: Tensor) -> "Int8":
        """The nearest: w ≈ scale · code, where the largest of a row has the code 127 or -127."""
        rows = weight.detach().numpy()
        scales = np.abs(rows).max(1) / np.float32(127)
        codes = np.rint(rows / np.where(scales, scales, 1)[:, None]).astype(np.int8)
        return cls(codes, scales)

    def to_float(self) -> Tensor:
        return torch.from_numpy(self.codes * self.scales[:, None])


@torch.no_grad()
def round_to_int8(weight: Tensor) -> None:
    """It becomes what eight bits can hold, and gets an `int8` that products may read instead."""
    weight.int8 = Int8.of(weight)  # type: ignore[attr-defined]
    weight.copy_(weight.int8.to_float())  # type: ignore[attr-defined]
    CHANGES.note()
