"""Nests of tensors, as states of recurrent models are: flattened to be stored and back, or written row by row."""

from typing import Any

from torch import Tensor


def flatten(nest: Any, name: str = "") -> dict[str, Tensor]:
    """{'hidden': [a, b]} -> {'hidden.0': a, 'hidden.1': b}."""
    if nest is None:
        return {}
    if isinstance(nest, dict):
        pairs = list(nest.items())
    elif isinstance(nest, tuple | list):
        pairs = list(enumerate(nest))
    else:
        return {name: nest}
    found: dict[str, Tensor] = {}
    for key, part in pairs:
        found |= flatten(part, f"{name}.{key}" if name else str(key))
    return found


def unflatten(like: Any, flat: dict[str, Tensor], name: str = "") -> Any:
    """A nest of the form of `like` with the tensors of `flat`."""
    inner = f"{name}." if name else ""
    if isinstance(like, dict):
        return {key: unflatten(part, flat, f"{inner}{key}") for key, part in like.items()}
    if isinstance(like, tuple | list):
        return type(like)(unflatten(part, flat, f"{inner}{index}") for index, part in enumerate(like))
    return None if like is None else flat[name]


def put_rows(state: Any, rows: Tensor, new: Any) -> None:
    """Write the state of these rows into that of the whole batch, cut off from its gradients."""
    parts = flatten(new)
    for name, whole in flatten(state).items():
        whole[rows] = parts[name].detach()
