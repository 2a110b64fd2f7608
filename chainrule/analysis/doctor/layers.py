"""Finds the parts of a model that the doctor looks at: the token table, the layers, and units with a nonlinearity.

Only this module of the doctor knows what modules of models are called. A model of a kind that it does not know is
searched for the usual modules of torch; what is not found is not looked at.
"""

from collections.abc import Iterator

from torch import nn

from chainrule.layers.block import Block
from chainrule.layers.cells import Cell
from chainrule.layers.gates import LOGISTIC, RELU, TANH
from chainrule.models._neural import NeuralModel
from chainrule.models.contract import architecture_of

TOKEN_TABLE, OUTPUT = "embedding", "unembedding"
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
# RELU stands for all functions that are flat below zero.
NONLINEARITIES: dict[type[nn.Module], str] = {
    nn.ReLU: RELU,
    nn.GELU: RELU,
    nn.SiLU: RELU,
    nn.Tanh: TANH,
    nn.Sigmoid: LOGISTIC,
}
HIDDEN = {"mlp": TANH, "bow": TANH}  # architectures that apply this function to their layer `hidden`


def token_table(model: NeuralModel) -> str | None:
    """The name of the module that turns token ids into vectors; None where there is none."""
    tables = [
        name
        for name, each in model.named_modules()
        if isinstance(each, nn.Embedding) and each.num_embeddings >= model.vocabulary_size
    ]
    return TOKEN_TABLE if TOKEN_TABLE in tables else next(iter(tables), None)


def find_layers(model: NeuralModel) -> dict[str, nn.Module]:
    """By name: token table, blocks and cells; in a model without these, its matrices and convolutions but the output's.

    They are in the order in which the model defines them.
    """
    kinds = (nn.Embedding, Block, Cell)
    found: dict[str, nn.Module] = {name: each for name, each in model.named_modules() if isinstance(each, kinds)}
    if len(found) < 2:
        matrices = {n: each for n, each in model.named_children() if isinstance(each, (nn.Linear, *CONVOLUTIONS))}
        output = output_matrix(model)
        found |= {name: each for name, each in matrices.items() if name != output}
    return found


def output_matrix(model: NeuralModel) -> str | None:
    """The name of the layer that gives the logits; None where none is found."""
    wide = [
        name
        for name, each in model.named_children()
        if isinstance(each, nn.Linear) and each.out_features == model.vocabulary_size
    ]
    return OUTPUT if OUTPUT in wide else wide[-1] if wide else None


def hidden_layer(model: NeuralModel) -> tuple[nn.Linear, str] | None:
    """The layer whose nonlinearity is applied by the model itself, and that nonlinearity: RELU or TANH."""
    hidden = getattr(model, "hidden", None)
    activation = getattr(model.config, "activation", None) or HIDDEN.get(architecture_of(model))
    if not isinstance(hidden, nn.Linear) or not isinstance(activation, str):
        return None
    return hidden, TANH if activation == TANH else RELU


def nonlinear_modules(model: NeuralModel) -> Iterator[tuple[str, nn.Module, str]]:
    """Modules of torch that are nonlinearities: name, module, and which it is."""
    for name, module in model.named_modules():
        for kind, nonlinearity in NONLINEARITIES.items():
            if isinstance(module, kind):
                yield name, module, nonlinearity
