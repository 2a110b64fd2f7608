"""Where training computes an operation and its gradient by kernels of ours, not by torch's operations."""

import numpy as np
import torch
from torch import Tensor

from chainrule.kernels.atomic import BETWEEN
from chainrule.kernels.thread_pool import THREAD_POOL, Kernel

COUNTERS = 3  # one for the pieces of work, two for a barrier


def can_train_by_kernels(*tensors: Tensor) -> bool:
    """Whether a gradient is wanted of these tensors and kernels can read them."""
    return torch.is_grad_enabled() and are_plain(*tensors)


def are_plain(*tensors: Tensor) -> bool:
    """Whether these are tensors of 32 bits on the processor, and nothing records or transforms what is done to them."""
    return (
        not torch.compiler.is_compiling()
        and all(
            type(each) in (Tensor, torch.nn.Parameter) and each.dtype == torch.float32 and each.device.type == "cpu"
            for each in tensors
        )
        and not torch._C._are_functorch_transforms_active()
    )


def run(kernel: Kernel, *arguments: Tensor | float | int) -> None:
    """Run a kernel over arrays of these tensors, on as many threads as torch has, or on one where that is faster."""
    given = [_as_kernels_read(each) for each in arguments]
    counters = np.zeros(COUNTERS * BETWEEN, np.int64)
    if torch.get_num_threads() == 1:
        kernel(*given, counters, 0, 1)
    else:
        shapes = tuple(each.shape for each in arguments if isinstance(each, Tensor))
        THREAD_POOL.run((kernel, *shapes), kernel, *given, counters)


def _as_kernels_read(argument: Tensor | float | int) -> np.ndarray | np.float32 | int:
    if isinstance(argument, Tensor):
        array: np.ndarray = argument.detach().numpy()
        return array
    return argument if isinstance(argument, int) else np.float32(argument)
