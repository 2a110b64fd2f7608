"""Nests of arrays: dictionaries, tuples and lists, one within the other, with arrays as leaves, or None for no array.

States, conditions and batches are nests whose arrays have one row per text (batch first). An array is one of NumPy or
torch, or any object of its own that can do the same with its rows, as a key-value cache can.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

N = TypeVar("N")  # a nest; functions give one of the same form


@runtime_checkable
class GrowingRows(Protocol):
    """A leaf that adds and removes rows in its own way, usually in place."""

    def add_rows(self: N, others: N) -> N: ...

    def remove_row(self: N, row: int) -> N: ...


def map_arrays(function: Callable[..., Any], nest: N, *others: N) -> N:
    """function(array, ...) for each array of a nest and its counterparts in others of the same form.

    map_arrays(np.add, {"a": x, "b": [y, None]}, {"a": u, "b": [v, None]}) -> {"a": x + u, "b": [y + v, None]}
    """
    if isinstance(nest, dict):
        return {key: map_arrays(function, part, *(each[key] for each in others)) for key, part in nest.items()}  # type: ignore[index, return-value]
    if isinstance(nest, tuple | list):
        parts = [map_arrays(function, *each) for each in zip(nest, *others, strict=True)]  # type: ignore[call-overload]
        make = getattr(nest, "_make", type(nest))  # of a named tuple, or of any other
        return make(parts)  # type: ignore[no-any-return]
    return nest if nest is None else function(nest, *others)


def flatten(nest: object) -> dict[str, Any]:
    """The arrays of a nest by their paths: {"hidden": [a, b]} -> {"hidden.0": a, "hidden.1": b}."""
    return dict(_walk(nest, ""))


def _walk(nest: object, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(nest, dict | tuple | list):
        for key, part in nest.items() if isinstance(nest, dict) else enumerate(nest):
            yield from _walk(part, f"{path}.{key}" if path else str(key))
    elif nest is not None:
        yield path, nest


def unflatten(like: N, flat: Mapping[str, Any]) -> N:
    """A nest of the form of `like` with the arrays that `flat` has for its paths; a KeyError where one is missing."""
    paths = iter(flatten(like))
    return map_arrays(lambda array: flat[next(paths)], like)


def num_rows(nest: object) -> int:
    """The number of rows that all arrays of a nest have; a ValueError if they differ or there is no array."""
    counts = {len(array) for array in flatten(nest).values()}  # type: ignore[arg-type]
    if len(counts) != 1:
        raise ValueError(f"the arrays of a nest must have the same number of rows, got {sorted(counts)}")
    return counts.pop()


def select_rows(nest: N, rows: object) -> N:
    """The nest of a batch made of these rows of the old one; rows may repeat (as in beam search) or be left out."""
    return map_arrays(lambda array: array[rows], nest)


def add_rows(nest: N, others: N) -> N:
    """The nest of a batch with the rows of `others` after its own. Both are given away: either may change in place."""
    return map_arrays(_concatenate, nest, others)


def _concatenate(array: N, other: N) -> N:
    if isinstance(array, np.ndarray):
        return np.concatenate((array, other))  # type: ignore[arg-type, return-value]
    if hasattr(array, "add_rows"):  # a GrowingRows; asking for the Protocol takes a hundred times as long
        return array.add_rows(other)  # type: ignore[no-any-return]
    return sys.modules["torch"].cat((array, other))  # type: ignore[no-any-return]


def remove_row(nest: N, row: int, count: int) -> N:
    """The nest of a batch of `count` rows without this one: the last row takes its place.

    The nest is given away, and so are those that share memory with it: its arrays may change in place.
    """
    kept = np.arange(count - 1)
    kept[row:][:1] = count - 1
    return map_arrays(lambda array: array.remove_row(row) if hasattr(array, "remove_row") else array[kept], nest)


def put_rows(nest: N, rows: object, new: N) -> None:
    """Write the arrays of a smaller batch into these rows of a larger one, in place and without their gradients."""

    def put(array: object, part: object) -> object:
        array[rows] = part.detach() if hasattr(part, "detach") else part  # type: ignore[index]
        return array

    map_arrays(put, nest, new)
