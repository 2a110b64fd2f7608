"""The inputs and outputs of every layer of a model while it reads a text."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.models._neural import NeuralModel


class Call(NamedTuple):
    """The latest call of a layer. Layers differ in what they take and give, so that is not typed."""

    arguments: tuple[Any, ...]
    output: Any


Calls = dict[nn.Module, Call]


@contextmanager
def recorded(model: nn.Module) -> Iterator[Calls]:
    """with recorded(model) as calls: model.read(...); calls[model.embedding].output"""
    calls: Calls = {}

    def note(module: nn.Module, arguments: tuple[object, ...], output: object) -> None:
        calls[module] = Call(arguments, output)

    handles = [module.register_forward_hook(note) for module in model.modules()]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def read_recorded(model: NeuralModel, ids: np.ndarray) -> tuple[Tensor, Calls]:
    """The hidden vectors of a text (time, width), and the calls that led to them."""
    with recorded(model) as calls:
        hidden, _ = model.read(torch.from_numpy(np.asarray(ids, np.int64))[None], None)
    return hidden[0], calls
