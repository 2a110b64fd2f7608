"""Where layers decide themselves what torch.autocast rounds."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """A context in which operations on the device of x keep the precision of what they are given."""
    device = x.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def in_autocast_dtype(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in the precision of torch.autocast where that is on, as kernels need that take no mixture."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(each.to(dtype) for each in tensors)
