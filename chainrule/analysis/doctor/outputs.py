"""Keeps the outputs of some layers while a model computes, and gives the gradients at them."""

from collections.abc import Callable, Mapping
from types import TracebackType

import torch
from torch import Tensor, nn

Hook = Callable[[nn.Module, tuple[object, ...], object], None]


class LayerOutputs:
    """with LayerOutputs(layers) as kept: the newest output of each layer is kept while the model computes."""

    def __init__(self, layers: Mapping[str, nn.Module]):
        self._layers = layers
        self._inputs: dict[str, object] = {}
        self._outputs: dict[str, Tensor] = {}

    def __enter__(self) -> "LayerOutputs":
        self._handles = [each.register_forward_hook(self._keep(name)) for name, each in self._layers.items()]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()

    def _keep(self, name: str) -> Hook:
        def hook(module: nn.Module, inputs: tuple[object, ...], output: object) -> None:
            first = output[0] if isinstance(output, tuple) else output
            if isinstance(first, Tensor) and first.requires_grad:
                self._outputs[name] = first
                self._inputs[name] = inputs[0] if inputs else None

        return hook

    def gradients(self, loss: Tensor) -> dict[str, Tensor]:
        """d loss / d output of every layer that the loss depends on, in the order of computation."""
        if not self._outputs:
            return {}
        found = torch.autograd.grad(loss, list(self._outputs.values()), allow_unused=True)
        return {name: each for name, each in zip(self._outputs, found, strict=True) if each is not None}

    def gradient_by_time(self, loss: Tensor, table: str | None, tokens: Tensor) -> Tensor | None:
        """d loss / d vector of each of the tokens (batch, time), by the table of this name: (time, batch, width).

        None where the table was not read with these tokens, in rows or in columns; others may come before them.
        """
        ids = self._inputs.get(table) if table is not None else None
        if not isinstance(ids, Tensor) or ids.dim() != 2 or table is None:
            return None
        (found,) = torch.autograd.grad(loss, [self._outputs[table]], allow_unused=True)
        time = tokens.shape[1]
        if found is None:
            return None
        if torch.equal(ids[-time:], tokens.t()):
            return found[-time:]
        return found[:, -time:].transpose(0, 1) if torch.equal(ids[:, -time:], tokens) else None
