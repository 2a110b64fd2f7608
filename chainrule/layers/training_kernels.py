"""Where training computes an operation and its gradient by kernels of ours, not by torch's operations."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from chainrule.kernels.atomic import BETWEEN
from chainrule.kernels.thread_pool import THREAD_POOL, Kernel

COUNTERS = 3  # one for the pieces of work, two for a barrier
PRECISIONS = (torch.float32, torch.bfloat16)  # that kernels can have


def can_train_by_kernels(*tensors: Tensor, precisions: Sequence[torch.dtype] = (torch.float32,)) -> bool:
    """Whether a gradient is wanted of these tensors and kernels can read them."""
    return torch.is_grad_enabled() and are_plain(*tensors, precisions=precisions)


def are_plain(*tensors: Tensor, precisions: Sequence[torch.dtype] = (torch.float32,)) -> bool:
    """Whether these are tensors on the processor, and nothing records or transforms what is done to them."""
    return (
        not torch.compiler.is_compiling()
        and all(
            type(each) in (Tensor, torch.nn.Parameter) and each.dtype in precisions and each.device.type == "cpu"
            for each in tensors
        )
        and not torch._C._are_functorch_transforms_active()
    )


def run(kernel: Kernel, *arguments: Tensor | float | int) -> None:
    """Run a kernel over arrays of these tensors, on as many threads as torch has, or on one where that is faster.

    Arrays of tensors in bfloat16 have integers of 16 bits (kernels/bfloat16.py).
    """
    given = [_as_kernels_read(each) for each in arguments]
    counters = np.zeros(COUNTERS * BETWEEN, np.int64)
    if torch.get_num_threads() == 1:
        kernel(*given, counters, 0, 1)
    else:
        shapes = tuple((each.shape, each.dtype) for each in arguments if isinstance(each, Tensor))
        THREAD_POOL.run((kernel, *shapes), kernel, *given, counters)


def _as_kernels_read(argument: Tensor | float | int) -> np.ndarray | np.float32 | int:
    if isinstance(argument, Tensor):
        tensor = argument.detach()
        array: np.ndarray = (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
        return array
    return argument if isinstance(argument, int) else np.float32(argument)
