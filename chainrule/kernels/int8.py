"""Quantised weights: each row of a matrix is int8 codes from -127 to 127 times a scale of its own."""

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
        """Round a matrix to the nearest w ≈ scale · code; the largest weight of a row gets the code 127 or -127."""
        rows = weight.detach().numpy()
        scales = np.abs(rows).max(1) / np.float32(127)
        codes = np.rint(rows / np.where(scales, scales, 1)[:, None]).astype(np.int8)
        return cls(codes, scales)

    def to_float(self) -> Tensor:
        return torch.from_numpy(self.codes * self.scales[:, None])


@torch.no_grad()
def round_to_int8(weight: Tensor) -> None:
    """Quantise a weight in place; `weight.int8` has its codes and scales, for kernels that read those instead."""
    weight.int8 = Int8.of(weight)  # type: ignore[attr-defined]
    weight.copy_(weight.int8.to_float())  # type: ignore[attr-defined]
    CHANGES.note()
