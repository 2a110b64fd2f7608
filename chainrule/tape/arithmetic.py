"""Sums, products, powers and reductions, elementwise and of matrices. Arrays are broadcast as in NumPy: where an input
was repeated to fit, its gradient is the sum over the repeats.
"""

import numpy as np

from chainrule.tape.operators import MODULES, Axes
from chainrule.tape.tape import Array, Gradients, Module


def unbroadcast(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Where an input was repeated to fit, its gradient is the sum over the repeats."""
    if gradient.shape == shape:
        return gradient
    gradient = gradient.sum(tuple(range(gradient.ndim - len(shape))))
    repeated = tuple(axis for axis, size in enumerate(shape) if size == 1 and gradient.shape[axis] != 1)
    return gradient.sum(repeated, keepdims=True) if repeated else gradient


class Add(Module):
    """a + b, as a residual connection has it."""

    def forward(self, a: Array, b: Array) -> Array:
        return a + b

    def backward(self, gradient: Array, output: Array, a: Array, b: Array) -> Gradients:
        return unbroadcast(gradient, a.shape), unbroadcast(gradient, b.shape)


class Subtract(Module):
    """a - b."""

    def forward(self, a: Array, b: Array) -> Array:
        return a - b

    def backward(self, gradient: Array, output: Array, a: Array, b: Array) -> Gradients:
        return unbroadcast(gradient, a.shape), unbroadcast(-gradient, b.shape) if self.needs[1] else None


class Multiply(Module):
    """a ⊙ b."""

    def forward(self, a: Array, b: Array) -> Array:
        return a * b

    def backward(self, gradient: Array, output: Array, a: Array, b: Array) -> Gradients:
        return (
            unbroadcast(gradient * b, a.shape) if self.needs[0] else None,
            unbroadcast(gradient * a, b.shape) if self.needs[1] else None,
        )


class Divide(Module):
    """a / b."""

    def forward(self, a: Array, b: Array) -> Array:
        return a / b

    def backward(self, gradient: Array, output: Array, a: Array, b: Array) -> Gradients:
        to_a = gradient / b
        return (
            unbroadcast(to_a, a.shape) if self.needs[0] else None,
            unbroadcast(-to_a * output, b.shape) if self.needs[1] else None,
        )


class Power(Module):
    """aᵇ. At a = 0 the derivatives are those from the right: of a⁰ by a, and of 0ᵇ by b, they are 0."""

    def forward(self, a: Array, b: Array) -> Array:
        return np.asarray(a**b)

    def backward(self, gradient: Array, output: Array, a: Array, b: Array) -> Gradients:
        to_a = to_b = None
        if self.needs[0]:
            slope = b * np.power(a, np.where(b == 0, 1, b - 1), dtype=output.dtype)
            to_a = unbroadcast(gradient * slope, a.shape)
        if self.needs[1]:
            logs = np.log(np.where((a == 0) & (b >= 0), 1, a), dtype=output.dtype)
            to_b = unbroadcast(gradient * output * logs, b.shape)
        return to_a, to_b


class MatMul(Module):
    """The product of matrices, (..., n, k) and (..., k, m); a vector counts as a row on the left, a column on the
    right."""

    def forward(self, a: Array, b: Array) -> Array:
        return np.asarray(a @ b)

    def backward(self, gradient: Array, output: Array, a: Array, b: Array) -> Gradients:
        left = a[None] if a.ndim == 1 else a
        right = b[:, None] if b.ndim == 1 else b
        g = gradient if b.ndim > 1 else gradient[..., None]
        g = g if a.ndim > 1 else np.expand_dims(g, -2)
        to_a = to_b = None
        if self.needs[0]:
            to_a = unbroadcast(g @ right.swapaxes(-1, -2), left.shape).reshape(a.shape)
        if self.needs[1]:
            to_b = unbroadcast(left.swapaxes(-1, -2) @ g, right.shape).reshape(b.shape)
        return to_a, to_b


class Dot(Module):
    """Σᵢ aᵢ bᵢ along the last dimension, which stays with length 1."""

    def forward(self, a: Array, b: Array) -> Array:
        return (a * b).sum(-1, keepdims=True)

    def backward(self, gradient: Array, output: Array, a: Array, b: Array) -> Gradients:
        if a.shape[-1:] != b.shape[-1:]:
            gradient = np.broadcast_to(gradient, np.broadcast_shapes(a.shape, b.shape))
        return unbroadcast(gradient * b, a.shape), unbroadcast(gradient * a, b.shape)


class Scale(Module):
    """A constant times a."""

    def __init__(self, factor: float):
        self.factor = factor

    def forward(self, a: Array) -> Array:
        return a * self.factor

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        return (gradient * self.factor,)


class Exp(Module):
    """eᵃ."""

    def forward(self, a: Array) -> Array:
        return np.exp(a)

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        return (gradient * output,)


class Log(Module):
    """The natural logarithm."""

    def forward(self, a: Array) -> Array:
        return np.log(a)

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        return (gradient / a,)


class Reduction(Module):
    """One number for all entries along some axes, by default all."""

    def __init__(self, axis: Axes = None, keepdims: bool = False):
        self.axis, self.keepdims = axis, keepdims

    def over(self, a: Array) -> tuple[int, ...]:
        """The axes of a; a number has none, whichever is given."""
        if self.axis is None or a.ndim == 0:
            return tuple(range(a.ndim))
        return self.axis if isinstance(self.axis, tuple) else (self.axis,)

    def repeated(self, reduced: Array, a: Array) -> Array:
        """What there is one of for each output, once for each entry of a."""
        if not self.keepdims:
            reduced = np.expand_dims(reduced, self.over(a))
        return np.broadcast_to(reduced, a.shape).copy()


class Sum(Reduction):
    """Σ a."""

    def forward(self, a: Array) -> Array:
        return np.asarray(a.sum(self.over(a), keepdims=self.keepdims))

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        return (self.repeated(gradient, a),)


class Mean(Reduction):
    """Σ a / n."""

    def forward(self, a: Array) -> Array:
        return np.asarray(a.mean(self.over(a), keepdims=self.keepdims))

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        return (self.repeated(gradient * (output.size / max(a.size, 1)), a),)


class Max(Reduction):
    """The largest entry; where several are, they share the gradient evenly."""

    def forward(self, a: Array) -> Array:
        return np.asarray(a.max(self.over(a), keepdims=self.keepdims))

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        is_largest = a == self.repeated(output, a)
        counts = is_largest.sum(self.over(a), keepdims=self.keepdims, dtype=a.dtype)
        return (is_largest * self.repeated(gradient / counts, a),)


MODULES.update(
    add=Add, subtract=Subtract, multiply=Multiply, divide=Divide, power=Power, matmul=MatMul, scale=Scale, exp=Exp,
    log=Log, sum=Sum, mean=Mean, max=Max,
)  # fmt: skip
