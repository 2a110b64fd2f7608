"""Modules of feed-forward networks: layers, nonlinear functions, norms, dropout, each backward derived by hand.

Arrays have any number of leading dimensions (batch, time); a vector lies along the last one.
"""

from math import erf, pi, prod, sqrt

import numpy as np

from chainrule.tape.arithmetic import Add as Add
from chainrule.tape.arithmetic import Dot as Dot
from chainrule.tape.arithmetic import Multiply as Multiply
from chainrule.tape.arithmetic import Scale as Scale
from chainrule.tape.operators import MODULES
from chainrule.tape.shapes import Concatenate as Concatenate
from chainrule.tape.shapes import Reshape as Reshape
from chainrule.tape.shapes import Slice as Slice
from chainrule.tape.tape import Array, Gradients, Module

_erf = np.frompyfunc(erf, 1, 1)  # NumPy has none
FLAT = 1e4  # of a²: from here on tanh is 1, and a³ need not overflow


def rows(array: Array) -> Array:
    """All leading dimensions as one."""
    return array.reshape(prod(array.shape[:-1]), array.shape[-1])


def check_ids(ids: Array, count: int, name: str) -> Array:
    """Raises a ValueError unless all are whole numbers from 0 to count - 1: NumPy would count negative ones from the
    end."""
    if not ids.size:
        return ids.astype(int)
    if ids.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers, got {ids.dtype}")
    least, most = int(ids.min()), int(ids.max())
    if least < 0 or most >= count:
        raise ValueError(f"{name} must be from 0 to {count - 1}, got {least if least < 0 else most}")
    return ids


class Linear(Module):
    """b = W a (+ bias): a (..., inputs), W (outputs, inputs)."""

    def forward(self, a: Array, weight: Array, *bias: Array) -> Array:
        b = rows(a) @ weight.T
        if bias:
            b += bias[0]
        return b.reshape(*a.shape[:-1], len(weight))

    def backward(self, gradient: Array, output: Array, a: Array, weight: Array, *bias: Array) -> Gradients:
        g = rows(gradient)
        to_a = (g @ weight).reshape(a.shape) if self.needs[0] else None
        to_weight = g.T @ rows(a) if self.needs[1] else None
        return (to_a, to_weight, g.sum(0)) if bias else (to_a, to_weight)


class Embedding(Module):
    """Row w of a table for every word w."""

    discrete = (0,)

    def forward(self, words: Array, table: Array) -> Array:
        return table[check_ids(words, len(table), "words")]

    def backward(self, gradient: Array, output: Array, words: Array, table: Array) -> Gradients:
        to_table = np.zeros_like(table)
        if not words.size:
            return None, to_table
        order = np.argsort(words, axis=None, kind="stable")
        sorted_words = words.ravel()[order]
        firsts = np.flatnonzero(np.r_[True, sorted_words[1:] != sorted_words[:-1]])
        to_table[sorted_words[firsts]] = np.add.reduceat(rows(gradient)[order], firsts, axis=0)
        return None, to_table


class MeanOverTime(Module):
    """The mean of all vectors so far, at every time: (batch, time, width)."""

    def forward(self, a: Array) -> Array:
        return a.cumsum(1) / self._counts(a)

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        return ((gradient / self._counts(a))[:, ::-1].cumsum(1)[:, ::-1],)

    def _counts(self, a: Array) -> Array:
        return np.arange(1, a.shape[1] + 1, dtype=a.dtype)[:, None]


class Dropout(Module):
    """Zero with probability `rate`, the others grown to make up for it. The seed decides which."""

    def __init__(self, rate: float, seed: int | tuple[int, ...] = 0):
        self.rate, self.seed = rate, seed

    def forward(self, a: Array) -> Array:
        self.mask = draw_mask(a, self.rate, self.seed)
        return a * self.mask

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        return (gradient * self.mask,)


class Sigmoid(Module):
    """1 / (1 + exp(-a)), exact for very negative a, too; never 0, so that there is a logarithm of it."""

    def forward(self, a: Array) -> Array:
        b = np.asarray(np.minimum(-a, -np.log(np.finfo(a.dtype).tiny)))
        np.exp(b, out=b)
        b += 1
        return np.divide(1, b, out=b)

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        return (gradient * output * (1 - output),)


class Tanh(Module):
    def forward(self, a: Array) -> Array:
        return np.tanh(a)

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        return (gradient * (1 - output * output),)


class ReLU(Module):
    def forward(self, a: Array) -> Array:
        return np.maximum(a, 0)

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        return (gradient * (a > 0),)


class ReLUSquared(Module):
    def forward(self, a: Array) -> Array:
        return np.square(np.maximum(a, 0))

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        return (gradient * (2 * np.maximum(a, 0)),)


class SiLU(Module):
    """x σ(x)."""

    def forward(self, a: Array) -> Array:
        return a * sigmoid(a)

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        opened = sigmoid(a)
        return (gradient * (opened + output * (1 - opened)),)


class SwiGLU(Module):
    """silu(gate) ⊙ value, which lie side by side; silu(x) = x σ(x)."""

    def forward(self, both: Array) -> Array:
        gate, value = np.split(both, 2, -1)
        self.opened = sigmoid(gate)
        return gate * self.opened * value

    def backward(self, gradient: Array, output: Array, both: Array) -> Gradients:
        gate, value = np.split(both, 2, -1)
        silu = gate * self.opened
        slope = self.opened + silu * (1 - self.opened)
        return (np.concatenate([gradient * value * slope, gradient * silu], -1),)


class GELU(Module):
    """a Φ(a), Φ the normal distribution's; "tanh" is the usual approximation of it, and faster."""

    def __init__(self, form: str = "tanh"):
        self.form = form

    def forward(self, a: Array) -> Array:
        if self.form == "exact":
            self.chance = 0.5 * (1 + np.asarray(_erf(a / sqrt(2)), a.dtype))
        else:  # (1 + tanh(√(2/π) (a + 0.044715 a³))) / 2
            inner = np.asarray(np.minimum(a * a, FLAT))
            inner *= a.dtype.type(0.044715 * sqrt(2 / pi))
            inner += a.dtype.type(sqrt(2 / pi))
            inner *= a
            self.chance = np.tanh(inner, out=inner)
            self.chance += 1
            self.chance *= a.dtype.type(0.5)
        return a * self.chance

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        chance, square = self.chance, a * a
        if self.form == "exact":
            slope = np.exp(-0.5 * square) * a.dtype.type(1 / sqrt(2 * pi))
        else:  # dΦ/da = Φ (1 - Φ) · 2 d(inner)/da
            square = np.minimum(square, FLAT)
            square *= a.dtype.type(6 * 0.044715 * sqrt(2 / pi))
            square += a.dtype.type(2 * sqrt(2 / pi))
            slope = (1 - chance) * chance
            slope *= square
        slope *= a
        slope += chance
        slope *= gradient
        return (slope,)


class LayerNorm(Module):
    """(a - mean) / √(variance + ε) ⊙ gain (+ bias)."""

    def __init__(self, epsilon: float = 1e-5):
        self.epsilon = epsilon

    def forward(self, a: Array, gain: Array, *bias: Array) -> Array:
        self.normed = a - a.mean(-1, keepdims=True)
        variance = np.einsum("...i,...i->...", self.normed, self.normed)[..., None] / a.shape[-1]
        self.scale = 1 / np.sqrt(variance + a.dtype.type(self.epsilon))
        self.normed *= self.scale
        b = self.normed * gain
        if bias:
            b += bias[0]
        return b

    def backward(self, gradient: Array, output: Array, a: Array, gain: Array, *bias: Array) -> Gradients:
        normed, width = self.normed, a.shape[-1]
        to_gain = np.einsum("ni,ni->i", rows(gradient), rows(normed))
        g = gradient * gain
        along = np.einsum("...i,...i->...", g, normed)[..., None] / width
        g -= g.mean(-1, keepdims=True)
        g -= normed * along
        g *= self.scale
        return (g, to_gain, rows(gradient).sum(0)) if bias else (g, to_gain)


class RMSNorm(Module):
    """a / √(mean of a² + ε) (⊙ gain)."""

    def __init__(self, epsilon: float = 1e-5):
        self.epsilon = epsilon

    def forward(self, a: Array, *gain: Array) -> Array:
        mean = np.einsum("...i,...i->...", a, a)[..., None] / a.shape[-1]
        self.scale = 1 / np.sqrt(mean + a.dtype.type(self.epsilon))
        self.normed = a * self.scale
        return self.normed * gain[0] if gain else self.normed

    def backward(self, gradient: Array, output: Array, a: Array, *gain: Array) -> Gradients:
        normed = self.normed
        g = gradient * gain[0] if gain else gradient
        along = np.einsum("...i,...i->...", g, normed)[..., None] / a.shape[-1]
        to_a = (g - normed * along) * self.scale
        return (to_a, np.einsum("ni,ni->i", rows(gradient), rows(normed))) if gain else (to_a,)


def draw_mask(like: Array, rate: float, seed: int | tuple[int, ...]) -> Array:
    """0 with probability `rate`, else 1 / (1 - rate), so that the mean is 1."""
    kept = np.random.default_rng(seed).random(like.shape, np.float32) >= rate
    return kept * np.asarray(1 / (1 - rate) if rate < 1 else 0, like.dtype)


def sigmoid(a: Array) -> Array:
    """For gates: fast, and exact to the precision of numbers near 1."""
    b = np.tanh(a * a.dtype.type(0.5))
    b += 1
    b *= a.dtype.type(0.5)
    return b


MODULES.update(sigmoid=Sigmoid, tanh=Tanh, relu=ReLU)
