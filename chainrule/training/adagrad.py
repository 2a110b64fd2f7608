"""Adagrad for big tables: only the rows that a step has touched are read or written."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class SparseAdagrad(torch.optim.Optimizer):
    """p -= lr * g / sqrt(Σ g²), element by element, as torch.optim.Adagrad, for sparse gradients of (rows, width)."""

    def __init__(self, parameters: Iterable[Tensor], lr: float = 0.1):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["sum"] = torch.zeros_like(parameter)
                gradient = parameter.grad.coalesce()
                rows, values = gradient.indices()[0], gradient.values()
                total = state["sum"][rows].addcmul_(values, values)
                state["sum"][rows] = total
                parameter.index_add_(0, rows, values / total.sqrt_().add_(1e-10), alpha=-group["lr"])
