"""y = W x + b. For a few rows x, faster kernels than torch's are used (matvec.py), on int8 codes if there are any."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.kernels.atomic import BETWEEN
from chainrule.kernels.int8 import Int8
from chainrule.kernels.matvec import COUNTERS, FEW, multiply
from chainrule.kernels.thread_pool import THREAD_POOL
from chainrule.layers.product import is_for_onednn, linear_by_onednn

LARGE = 1 << 20  # weights; fewer stay in a processor's cache, where torch is as fast
NOTHING = np.zeros(0, np.float32)


class Linear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.linear: x (..., width) -> (..., outputs)."""
    width = x.shape[-1]
    if x.numel() > FEW * width or weight.numel() < LARGE or not are_for_kernels(x, weight):
        return linear_by_onednn(x, weight, bias) if is_for_onednn(x, weight) else F.linear(x, weight, bias)
    y = x.new_empty(*x.shape[:-1], len(weight))
    rows, results = x.reshape(-1, width).numpy(), y.view(-1, len(weight)).numpy()
    counters = np.zeros(COUNTERS * BETWEEN, np.int64)
    work = (weight.numel(), len(rows))
    THREAD_POOL.run(work, multiply, *as_arrays(weight), rows, as_array(bias), results, counters)
    return y


def are_for_kernels(x: Tensor, weight: Tensor) -> bool:
    return (
        not torch.is_grad_enabled()
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and weight.is_contiguous()
        and not torch.compiler.is_compiling()
    )


def as_array(vector: Tensor | None) -> np.ndarray:
    """The array of a tensor, without copying; an empty one for None."""
    found: np.ndarray = NOTHING if vector is None else vector.detach().numpy()
    return found


def as_arrays(weight: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """What kernels read of a weight: itself and an empty array, or its int8 codes and their scales."""
    small: Int8 | None = getattr(weight, "int8", None)
    return (weight.detach().numpy(), NOTHING) if small is None else (small.codes, small.scales)
