"""The same entries in another order or shape, or some of them. Nothing is computed, so ids stay ids."""

from typing import Any

import numpy as np

from chainrule.tape.operators import MODULES
from chainrule.tape.tape import Array, Gradients, Module, Value


class Concatenate(Module):
    """[a; b; ...] along an axis."""

    is_rearrangement = True

    def __init__(self, axis: int = -1):
        self.axis = axis

    def forward(self, *parts: Array) -> Array:
        return np.concatenate(parts, self.axis)

    def backward(self, gradient: Array, output: Array, *parts: Array) -> Gradients:
        ends = np.cumsum([part.shape[self.axis] for part in parts])
        return tuple(np.split(gradient, ends[:-1], self.axis))


class Slice(Module):
    """The entries from first to end along an axis."""

    is_rearrangement = True

    def __init__(self, first: int, end: int, axis: int = -1):
        self.first, self.end, self.axis = first, end, axis

    def _places(self, ndim: int) -> tuple[slice, ...]:
        axis = self.axis % ndim
        return tuple(slice(self.first, self.end) if each == axis else slice(None) for each in range(ndim))

    def forward(self, a: Array) -> Array:
        return a[self._places(a.ndim)]

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        to_a = np.zeros_like(a)
        to_a[self._places(a.ndim)] = gradient
        return (to_a,)


class Index(Module):
    """a[key] for any key that NumPy takes: numbers, slices, None, ..., arrays of numbers or of bools."""

    is_rearrangement = True

    def __init__(self, key: Any):
        parts = (
            each.array if isinstance(each, Value) else each for each in (key if isinstance(key, tuple) else (key,))
        )
        self.key = tuple(np.asarray(each, None if each else int) if isinstance(each, list) else each for each in parts)
        self._is_basic = not any(isinstance(each, np.ndarray) for each in self.key)  # no entry is taken twice

    def forward(self, a: Array) -> Array:
        return np.asarray(a[self.key])

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        to_a = np.zeros_like(a)
        if self._is_basic:
            to_a[self.key] = gradient
        else:
            np.add.at(to_a, self.key, gradient)
        return (to_a,)


class Reshape(Module):
    """The same entries in another shape."""

    is_rearrangement = True

    def __init__(self, *shape: int):
        self.shape = shape

    def forward(self, a: Array) -> Array:
        return a.reshape(self.shape)

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        return (gradient.reshape(a.shape),)


class Transpose(Module):
    """The dimensions in another order; by default in reverse."""

    is_rearrangement = True

    def __init__(self, *axes: int):
        self.axes = axes or None

    def forward(self, a: Array) -> Array:
        return a.transpose(self.axes)

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        back = None if self.axes is None else np.argsort(np.array(self.axes) % a.ndim)
        return (gradient.transpose(back),)


MODULES.update(index=Index, reshape=Reshape, transpose=Transpose)
