"""Finds the parts of a model that the doctor looks at: the token table, the layers, and units with a nonlinearity.

Parameters say by their declared roles what they are for; beyond these, the usual modules of torch are looked for.
"""

from collections.abc import Iterator

from torch import nn

from chainrule.layers.block import Block
from chainrule.layers.cells import Cell
from chainrule.layers.gates import LOGISTIC, RELU, TANH
from chainrule.layers.roles import Role, modules_of
from chainrule.models._neural import NeuralModel

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
# RELU stands for all functions that are flat below zero.
NONLINEARITIES: dict[type[nn.Module], str] = {
    nn.ReLU: RELU,
    nn.GELU: RELU,
    nn.SiLU: RELU,
    nn.Tanh: TANH,
    nn.Sigmoid: LOGISTIC,
}


def token_table(model: NeuralModel) -> str | None:
    """The name of the module that turns token ids into vectors; None where the model declares none."""
    return next((name for name, each in modules_of(model, Role.TOKEN_TABLE) if isinstance(each, nn.Embedding)), None)


def find_layers(model: NeuralModel) -> dict[str, nn.Module]:
    """By name: token table, blocks and cells; in a model without these, its matrices and convolutions but the output's.

    They are in the order in which the model defines them.
    """
    kinds = (nn.Embedding, Block, Cell)
    found: dict[str, nn.Module] = {name: each for name, each in model.named_modules() if isinstance(each, kinds)}
    if len(found) < 2:
        outputs = {name for name, _ in modules_of(model, Role.OUTPUT)}
        for name, each in model.named_children():
            if isinstance(each, (nn.Linear, *CONVOLUTIONS)) and name not in outputs:
                found[name] = each
    return found


def nonlinear_modules(model: NeuralModel) -> Iterator[tuple[str, nn.Module, str]]:
    """Modules of torch that are nonlinearities: name, module, and which it is."""
    for name, module in model.named_modules():
        for kind, nonlinearity in NONLINEARITIES.items():
            if isinstance(module, kind):
                yield name, module, nonlinearity
