"""What a parameter is for, declared where it is made.

Optimizers, initialisation, the doctor and explanations ask for a role and never for an attribute's name:

    self.embedding = declare(Role.TOKEN_TABLE, nn.Embedding(vocabulary_size, width))

Parameters without a declared role are hidden matrices if they have two dimensions, and vectors otherwise.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import TypeVar

from torch import Tensor, nn


class Role(StrEnum):
    TOKEN_TABLE = "token table"  # a row for every token, looked up: an embedding
    SPARSE_TABLE = "sparse table"  # a table of which a step reads a few rows, with sparse gradients: hashed n-grams
    POSITIONS = "positions"  # learned positions, or biases by distance
    OUTPUT = "output"  # hidden vectors to logits
    OUTPUT_BIAS = "output bias"  # one number per token, added to its logit
    HIDDEN_MATRIX = "hidden matrix"
    ADAPTER = "adapter"  # a factor of the low-rank update of a matrix: lora.py
    VECTOR = "vector"  # gains, biases and whatever else is not a matrix


T = TypeVar("T", bound=nn.Module | nn.Parameter)


def declare(role: Role, what: T) -> T:
    """Mark a parameter, or every parameter of a module that has no role yet, and return it."""
    if isinstance(what, nn.Module):
        for parameter in what.parameters():
            if not hasattr(parameter, "role"):
                parameter.role = role  # type: ignore[attr-defined]
    else:
        what.role = role  # type: ignore[attr-defined]
    return what


def role_of(parameter: Tensor) -> Role:
    role: Role | None = getattr(parameter, "role", None)
    if role is not None:
        return role
    return Role.HIDDEN_MATRIX if parameter.ndim == 2 else Role.VECTOR


def parameters_of(model: nn.Module, role: Role) -> dict[str, nn.Parameter]:
    """The parameters with this role, by name."""
    return {name: each for name, each in model.named_parameters() if role_of(each) == role}


def modules_of(model: nn.Module, role: Role) -> Iterator[tuple[str, nn.Module]]:
    """The modules that hold a parameter with this role themselves, by name: an `nn.Embedding` of a token table."""
    for name, module in model.named_modules():
        if any(role_of(each) == role for each in module.parameters(recurse=False)):
            yield name, module
