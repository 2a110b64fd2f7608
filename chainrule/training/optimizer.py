"""The update rules: mini-batch SGD, SGD with momentum, AdamW, and Muon for hidden matrices with AdamW for the rest.

Tables whose gradient is sparse are learned by Adagrad, whose steps fit rows that are seen often and rarely alike.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from chainrule.layers.roles import Role, role_of
from chainrule.models._neural import NeuralModel
from chainrule.training.adagrad import SparseAdagrad
from chainrule.training.muon import Muon
from chainrule.training.recipe import OPTIMIZERS, Recipe

MUON_RATE = 0.02

Named = list[tuple[str, nn.Parameter]]


class Optimizer:
    """Several torch optimizers, each for some of the parameters, used as one; its state is a dict of named tensors."""

    def __init__(self, model: NeuralModel, recipe: Recipe):
        self._names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
        self._parts = _build(model, recipe)
        self._rates = [[group["lr"] for group in part.param_groups] for part in self._parts]
        self.peak = recipe.learning_rate  # the rate that is reported

    def step(self, factor: float) -> None:
        """One update at this fraction of the peak rates; then the gradients are cleared."""
        for part, rates in zip(self._parts, self._rates, strict=True):
            for group, rate in zip(part.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            part.step()
            part.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Tensor]:
        """{'blocks.0.attention.output.weight/momentum': ...}"""
        return {
            f"{self._names[parameter]}/{key}": torch.as_tensor(value)
            for part in self._parts
            for parameter, values in part.state.items()
            for key, value in values.items()
            if value is not None
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        by_parameter: dict[str, dict[str, Tensor]] = {}
        for name, tensor in state.items():
            parameter_name, _, key = name.rpartition("/")
            by_parameter.setdefault(parameter_name, {})[key] = tensor
        for part in self._parts:
            for group in part.param_groups:
                for parameter in group["params"]:
                    if self._names[parameter] in by_parameter:
                        part.state[parameter] = by_parameter[self._names[parameter]]


def _build(model: NeuralModel, recipe: Recipe) -> list[torch.optim.Optimizer]:
    named = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
    tables = [each for _, each in named if role_of(each) == Role.SPARSE_TABLE]
    dense = [(name, each) for name, each in named if role_of(each) != Role.SPARSE_TABLE]
    sparse: list[torch.optim.Optimizer] = [SparseAdagrad(tables, recipe.table_learning_rate)] if tables else []
    return sparse + BUILDERS[recipe.optimizer](model, dense, recipe)


def _sgd(model: NeuralModel, named: Named, recipe: Recipe) -> list[torch.optim.Optimizer]:
    return [torch.optim.SGD(_groups(named, recipe), recipe.learning_rate)]


def _momentum(model: NeuralModel, named: Named, recipe: Recipe) -> list[torch.optim.Optimizer]:
    return [torch.optim.SGD(_groups(named, recipe), recipe.learning_rate, recipe.momentum)]


def _adamw_alone(model: NeuralModel, named: Named, recipe: Recipe) -> list[torch.optim.Optimizer]:
    return [_adamw(named, recipe)]


def _muon(model: NeuralModel, named: Named, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """Muon for hidden matrices, AdamW for everything else."""
    by_parts: dict[int, list[nn.Parameter]] = {}
    for name, each in named:
        if role_of(each) == Role.HIDDEN_MATRIX:
            by_parts.setdefault(model.matrix_parts(name), []).append(each)
    others = [(name, each) for name, each in named if role_of(each) != Role.HIDDEN_MATRIX]
    rest = [_adamw(others, recipe)] if others else []
    if not by_parts:
        return rest
    rate = recipe.matrix_learning_rate or MUON_RATE
    groups: list[dict[str, Any]] = [{"params": each, "parts": count} for count, each in by_parts.items()]
    dtype = torch.bfloat16 if recipe.precision == "bfloat16" else None
    return [Muon(groups, rate, recipe.momentum, recipe.weight_decay, recipe.muon_rounds, dtype), *rest]


def _adamw(named: Named, recipe: Recipe) -> torch.optim.Optimizer:
    betas = (recipe.beta1, recipe.beta2)
    return torch.optim.AdamW(_groups(named, recipe), recipe.learning_rate, betas, 1e-8, fused=True)


def _groups(named: Named, recipe: Recipe) -> list[dict[str, Any]]:
    """Parameter groups: hidden matrices may have a rate of their own; vectors (gains, biases) have no weight decay."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for _, each in named:
        own = recipe.matrix_learning_rate if role_of(each) == Role.HIDDEN_MATRIX else None
        decay = recipe.weight_decay if each.ndim >= 2 else 0.0
        groups.setdefault((own or recipe.learning_rate, decay), []).append(each)
    return [{"params": each, "lr": rate, "weight_decay": decay} for (rate, decay), each in groups.items()]


BUILDERS = {"sgd": _sgd, "momentum": _momentum, "adamw": _adamw_alone, "muon": _muon}  # by the names in recipe.py
assert BUILDERS.keys() == OPTIMIZERS.keys()
