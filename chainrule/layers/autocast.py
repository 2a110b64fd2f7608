"""Where layers decide themselves what torch.autocast rounds."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """A context in which operations on the device of x keep the precision of what they are given."""
    device = x.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def autocast_dtype(x: Tensor) -> torch.dtype:
    """The precision of torch.autocast where that is on, else that of x."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def in_autocast_dtype(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in the precision of torch.autocast where that is on, as kernels need that take no mixture."""
    if not torch.is_autocast_enabled(tensors[0].device.type):
        return tensors
    return tuple(each.to(autocast_dtype(each)) for each in tensors)
