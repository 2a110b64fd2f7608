"""Finds the origin of NaN and infinity: the first module, forward or backward, whose numbers are not finite.

Only asked for once a loss or a gradient was not: the batch is then read again with a hook on every module. An inner
module ends before the one it is in, so the first that is found is the innermost.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from chainrule.layers.positions import DistanceBias

OUTPUT = "the output layer or the loss itself"  # which are no modules


class Origin:
    """Modules by their names in the model, such as blocks.2.feedforward.input; None where all was finite."""

    def __init__(self) -> None:
        self.value: str | None = None  # the first whose output was not
        self.gradient: str | None = None  # the first at whose output the gradient was not, or whose own was not

    def describe(self) -> str:
        """The end of the error message: which module it was; empty if the batch was finite when it was read again."""
        if self.value:
            return f", first in {self.value}"
        return f", first in the gradient at {self.gradient}" if self.gradient else ""


@contextmanager
def watched(model: nn.Module) -> Iterator[Origin]:
    """with watched(model) as origin: read the batch, forward and backward"""
    origin = Origin()
    model.zero_grad()
    handles = [
        module.register_forward_hook(lambda _module, _inputs, output, name=name: _look(origin, name, output))
        for name, module in model.named_modules()
        if name and not isinstance(module, DistanceBias)  # a mask, whose -inf is meant
    ]
    try:
        yield origin
    finally:
        for handle in handles:
            handle.remove()
    own = (name for name, each in model.named_parameters() if each.grad is not None and not _is_finite(each.grad))
    origin.gradient = origin.gradient or next(own, None)


def _look(origin: Origin, name: str, output: Any) -> None:
    for tensor in _tensors(output):
        if not _is_finite(tensor):
            origin.value = origin.value or name
        if tensor.requires_grad:
            tensor.register_hook(lambda gradient: _look_back(origin, name, gradient))


def _look_back(origin: Origin, name: str, gradient: Tensor) -> None:
    if not _is_finite(gradient):
        origin.gradient = origin.gradient or name


def _is_finite(tensor: Tensor) -> bool:
    values = tensor.coalesce().values() if tensor.is_sparse else tensor
    return bool(torch.isfinite(values).all())


def _tensors(output: Any) -> Iterator[Tensor]:
    """All tensors of a module's output, which may be a tensor or nested tuples of tensors."""
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, tuple | list):
        for each in output:
            yield from _tensors(each)
