"""Multi-head causal self-attention, and rotary position embedding."""

from math import sqrt

import numpy as np

from chainrule.tape.arithmetic import unbroadcast
from chainrule.tape.losses import softmax
from chainrule.tape.tape import Array, Gradients, Module


class Attention(Module):
    """softmax(q kᵀ / √d + mask) v for each head: q (batch, time, heads · d), k and v (batch, keys, kv_heads · d).

    Causal: the last query has the position of the last key and sees all keys, the one before it all but the last, and
    so on. Where there are fewer heads of keys and values, neighbouring query heads share one
    (grouped-query attention).

    A fourth input, if there is one, is a mask that is broadcast to (batch, heads, time, keys): bools, True where a key
    may be seen, or floats that are added to the scores. The output for a query that sees no key is 0.
    """

    discrete = (3,)

    def __init__(self, num_heads: int, num_key_value_heads: int | None = None, is_causal: bool = True):
        self.num_heads, self.num_key_value_heads = num_heads, num_key_value_heads or num_heads
        self.is_causal = is_causal

    def forward(self, query: Array, key: Array, value: Array, *mask: Array) -> Array:
        q, k, v = self._queries(query), self._keys(key), self._keys(value)
        scores = q @ k.swapaxes(-1, -2)  # (batch, kv_heads, group, time, keys)
        scores *= query.dtype.type(1 / sqrt(q.shape[-1]))
        time, keys = scores.shape[-2:]
        if mask:
            scores += self._added(mask[0], scores.dtype)
        if self.is_causal and time > 1:
            scores += np.triu(np.full((time, keys), -np.inf, scores.dtype), keys - time + 1)
        if mask or (self.is_causal and time > keys):
            is_blind = scores.max(-1, initial=-np.inf) == -np.inf
            scores[is_blind] = 0
            self.weights = softmax(scores)
            self.weights[is_blind] = 0
        else:
            self.weights = softmax(scores)
        return self._concatenated(self.weights @ v)

    def backward(
        self, gradient: Array, output: Array, query: Array, key: Array, value: Array, *mask: Array
    ) -> Gradients:
        q, k, v, g = self._queries(query), self._keys(key), self._keys(value), self._queries(gradient)
        to_v = self.weights.swapaxes(-1, -2) @ g
        scores = g @ v.swapaxes(-1, -2)
        scores -= np.einsum("...i,...i->...", scores, self.weights)[..., None]
        scores *= self.weights
        to_mask = None
        if mask and self.needs[3]:
            batch, *_, time, keys = scores.shape
            to_mask = unbroadcast(scores.reshape(batch, self.num_heads, time, keys), mask[0].shape)
        scores *= query.dtype.type(1 / sqrt(q.shape[-1]))
        to_k = scores.swapaxes(-1, -2) @ q
        found = (
            self._concatenated(scores @ k),
            self._concatenated(to_k.sum(2, keepdims=True)),
            self._concatenated(to_v.sum(2, keepdims=True)),
        )
        return (*found, to_mask) if mask else found

    def _added(self, mask: Array, dtype: np.dtype) -> Array:
        """A mask as it is added to the scores, (batch, kv_heads, group, time, keys)."""
        if mask.dtype.kind not in "bf":
            raise ValueError(
                f"a mask must be bools (True: may be seen) or floats (added to the scores), got {mask.dtype}"
            )
        if mask.dtype.kind == "b":
            mask = np.where(mask, dtype.type(0), dtype.type(-np.inf))
        mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
        batch, heads, time, keys = mask.shape
        parts = (1, 1) if heads == 1 else (self.num_key_value_heads, heads // self.num_key_value_heads)
        return mask.reshape(batch, *parts, time, keys)

    def _queries(self, a: Array) -> Array:
        """(batch, time, heads · d) -> (batch, kv_heads, group, time, d)"""
        batch, time, width = a.shape
        groups = self.num_heads // self.num_key_value_heads
        parts = a.reshape(batch, time, self.num_key_value_heads, groups, width // self.num_heads)
        return np.ascontiguousarray(parts.transpose(0, 2, 3, 1, 4))

    def _keys(self, a: Array) -> Array:
        """(batch, keys, kv_heads · d) -> (batch, kv_heads, 1, keys, d)"""
        batch, keys, width = a.shape
        parts = a.reshape(batch, keys, self.num_key_value_heads, width // self.num_key_value_heads)
        return np.ascontiguousarray(parts.transpose(0, 2, 1, 3))[:, :, None]

    def _concatenated(self, a: Array) -> Array:
        """(batch, kv_heads, group, time, d) -> (batch, time, heads · d)"""
        batch, heads, group, time, width = a.shape
        return np.ascontiguousarray(a.transpose(0, 3, 1, 2, 4)).reshape(batch, time, heads * group * width)


class Rotary(Module):
    """Rotary positions: each pair of entries (i, i + d/2) of a head is rotated by the angle position · base^(-2i/d)."""

    def __init__(self, head_width: int, base: float = 10000.0, first: int = 0):
        self.head_width, self.base, self.first = head_width, base, first

    def forward(self, a: Array) -> Array:
        return self._rotate(a, 1)

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        return (self._rotate(gradient, -1),)  # the transpose of a rotation is its inverse

    def _rotate(self, a: Array, direction: int) -> Array:
        batch, time, width = a.shape
        half = self.head_width // 2
        rates = self.base ** (-np.arange(half) / half)
        angles = np.outer(np.arange(self.first, self.first + time), rates)[:, None]  # (time, 1, half)
        cosine, sine = np.cos(angles).astype(a.dtype), (direction * np.sin(angles)).astype(a.dtype)
        left, right = np.split(a.reshape(batch, time, width // self.head_width, self.head_width), 2, -1)
        rotated = np.concatenate([left * cosine - right * sine, right * cosine + left * sine], -1)
        return rotated.reshape(batch, time, width)
