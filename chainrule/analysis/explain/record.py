"""What every layer of a model was given and gave, while it read a text."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn


class Call(NamedTuple):
    arguments: tuple[Any, ...]
    output: Any


@contextmanager
def recorded(model: nn.Module) -> Iterator[dict[nn.Module, Call]]:
    """with recorded(model) as calls: model.read(...); calls[model.embedding].output"""
    calls: dict[nn.Module, Call] = {}

    def note(module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        calls[module] = Call(arguments, output)

    handles = [module.register_forward_hook(note) for module in model.modules()]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def read(model: Any, ids: np.ndarray) -> tuple[Tensor, dict[nn.Module, Call]]:
    """The hidden vectors of a text (time, width), and what happened on the way to them."""
    with recorded(model) as calls:
        hidden, _ = model.read(torch.from_numpy(np.asarray(ids, np.int64))[None], None)
    return hidden[0], calls
