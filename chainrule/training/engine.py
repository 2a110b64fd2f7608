"""The engine that computes gradients: torch, or our own tape on NumPy. Loop, optimizers and checkpoints are the same.

The tape reads the weights where torch keeps them, so that one checkpoint is as good for either.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chainrule.checks import require_choice
from chainrule.errors import UserError
from chainrule.models._neural import NeuralModel
from chainrule.models.contract import IGNORE, Batch, Loss, State, architecture_of
from chainrule.nest import flatten, unflatten
from chainrule.tape.models import MODELS
from chainrule.tape.tape import Tape

ENGINES = ("torch", "tape")

Advance = Callable[..., tuple[Loss, State | None]]


def check_engine(engine: str, architecture: str, config: Any) -> None:
    require_choice("engine", engine, ENGINES)
    if engine == "torch":
        return
    if architecture not in MODELS:
        raise UserError(f"the engine tape has no {architecture} (it has: {', '.join(MODELS)}); use the engine torch")
    try:
        MODELS[architecture].check(config)
    except ValueError as error:
        raise UserError(str(error)) from None


def advance_by(engine: str, model: NeuralModel) -> Advance:
    """`model.advance`, or the same computed on the tape."""
    return model.advance if engine == "torch" else _OnTape(model)


class _Known(torch.autograd.Function):
    """A loss whose gradients the tape has already computed, for torch's backward to pass on."""

    @staticmethod
    def forward(ctx: Any, total: float, count: int, found: list[Tensor], *parameters: Tensor) -> Tensor:
        ctx.found, ctx.count = found, count
        return parameters[0].new_tensor(total)

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        return None, None, None, *(each * (scale * ctx.count) for each in ctx.found)


class _OnTape:
    def __init__(self, model: NeuralModel):
        self._model = model
        self._twin = MODELS[architecture_of(model)](model.config, {})

    def __call__(self, batch: Batch, state: State | None, candidates: Any = None) -> tuple[Loss, State | None]:
        tensors = dict(self._model.named_parameters())
        self._twin.bind({name: each.detach().numpy() for name, each in tensors.items()})
        inputs, targets = (np.asarray(each) for each in (batch.inputs, batch.targets))
        count = int((targets != IGNORE).sum())
        tape, seed = Tape(), int(torch.randint(2**31, ()))
        before = (
            None
            if state is None
            else self._twin.join_state({name: each.numpy() for name, each in flatten(state).items()})
        )
        mean, after = self._twin.loss(tape, inputs, targets, before, seed if self._model.training else None)
        tape.backward(mean)
        found = [torch.from_numpy(self._twin.parameters[name].gradient) for name in tensors]
        total: Tensor = _Known.apply(float(mean.array) * count, count, found, *tensors.values())
        new = None
        if state is not None:
            parts = self._twin.split_state(after)
            new = unflatten(state, {name: torch.from_numpy(array) for name, array in parts.items()})
        return Loss(total, count), new
