"""Recurrent layers over a whole sequence as one node: Elman, UGRNN, GRU and LSTM. On one time step they are the cells.

Inputs: x (batch, time, inputs), the state before (batch, width), W_x (gates · width, inputs), W_h (gates · width,
width), bias (gates · width). Output: the state after every step, (batch, time, width). Back through time, the gradient
of each state is what arrives at it from above plus what the step after it hands back.
"""

import numpy as np

from chainrule.tape.modules import rows, sigmoid
from chainrule.tape.tape import Array, Gradients, Module


class Recurrent(Module):
    """The loop that all share. A cell says how one step goes, and how its gradient comes back.

    In the loops time comes first, so that what one step reads lies together.
    """

    def forward(self, x: Array, before: Array, input_weight: Array, weight: Array, bias: Array, *more: Array) -> Array:
        projected = self._project(x, input_weight, bias)
        self.states = np.empty((len(projected) + 1, *before.shape), x.dtype)
        self.states[0] = before
        self.begin(projected)
        for t, inputs in enumerate(projected):
            self.states[t + 1] = self.step(t, inputs, self.states[t], weight, *more)
        return self.states[1:].swapaxes(0, 1)

    def backward(self, gradient: Array, output: Array, x: Array, before: Array, input_weight: Array, weight: Array,
                 bias: Array, *more: Array) -> Gradients:  # fmt: skip
        arriving = gradient.swapaxes(0, 1)
        inputs = np.empty((*arriving.shape[:2], len(weight)), x.dtype)  # dJ/d(projected)
        recalled = self.recalled(inputs)  # dJ/d(W_h h), where that is not the same
        back = np.zeros_like(before)
        for t in reversed(range(len(arriving))):
            back = self.step_back(t, arriving[t] + back, inputs[t], recalled[t], weight)
        by_row = rows(np.ascontiguousarray(inputs.swapaxes(0, 1)))
        to_x = (by_row @ input_weight).reshape(x.shape) if self.needs[0] else None
        to_weight = rows(recalled).T @ rows(self.hidden(self.states[:-1], weight))
        found = (to_x, back, by_row.T @ rows(x), to_weight, by_row.sum(0))
        return (*found, *self.more(rows(recalled))) if more else found

    def _project(self, x: Array, input_weight: Array, bias: Array) -> Array:
        """W_x x + b at all times at once: (time, batch, gates · width)."""
        first = np.ascontiguousarray(x.swapaxes(0, 1))
        projected = rows(first) @ input_weight.T
        projected += bias
        return projected.reshape(*first.shape[:2], len(input_weight))

    def begin(self, projected: Array) -> None:
        """Room for what the steps keep."""

    def step(self, t: int, inputs: Array, state: Array, weight: Array, *more: Array) -> Array:
        raise NotImplementedError

    def step_back(self, t: int, gradient: Array, inputs: Array, recalled: Array, weight: Array) -> Array:
        """Fills dJ/d(projected_t) into `inputs` (and into `recalled`), and gives dJ/d(state before)."""
        raise NotImplementedError

    def recalled(self, inputs: Array) -> Array:
        return inputs

    def hidden(self, states: Array, weight: Array) -> Array:
        """The part of a state that W_h is multiplied with."""
        return states

    def more(self, recalled: Array) -> Gradients:
        return ()


class Elman(Recurrent):
    """h_t = σ(W_x x_t + W_h h_{t-1} + b), where σ is tanh, logistic or relu."""

    def __init__(self, nonlinearity: str = "tanh"):
        self.nonlinearity = nonlinearity

    def step(self, t: int, inputs: Array, state: Array, weight: Array, *more: Array) -> Array:
        a = state @ weight.T
        a += inputs
        if self.nonlinearity == "tanh":
            return np.tanh(a, out=a)
        return sigmoid(a) if self.nonlinearity == "logistic" else np.maximum(a, 0, out=a)

    def step_back(self, t: int, gradient: Array, inputs: Array, recalled: Array, weight: Array) -> Array:
        h = self.states[t + 1]
        slope = 1 - h * h if self.nonlinearity == "tanh" else h * (1 - h) if self.nonlinearity == "logistic" else h > 0
        np.multiply(gradient, slope, out=inputs)
        return inputs @ weight


class UGRNN(Recurrent):
    """R = tanh(W h + ...), G = σ(W h + ...), each with its own weights; h_t = G ⊙ h_{t-1} + (1 - G) ⊙ R."""

    def begin(self, projected: Array) -> None:
        self.gates = np.empty_like(projected)

    def step(self, t: int, inputs: Array, state: Array, weight: Array, *more: Array) -> Array:
        a, width = self.gates[t], state.shape[1]
        np.matmul(state, weight.T, out=a)
        a += inputs
        candidate = np.tanh(a[:, :width], out=a[:, :width])
        a[:, width:] = sigmoid(a[:, width:])
        return candidate + a[:, width:] * (state - candidate)

    def step_back(self, t: int, gradient: Array, inputs: Array, recalled: Array, weight: Array) -> Array:
        width = gradient.shape[1]
        candidate, update = self.gates[t, :, :width], self.gates[t, :, width:]
        rest = 1 - update
        inputs[:, :width] = gradient * rest * (1 - candidate * candidate)
        inputs[:, width:] = gradient * (self.states[t] - candidate) * update * rest
        return gradient * update + inputs @ weight


class GRU(Recurrent):
    """r, z = σ(W h + ...), n = tanh(W_x x + b + r ⊙ (W_h h + c)), h_t = (1 - z) ⊙ n + z ⊙ h_{t-1}.

    One more input: c (width), the bias that is forgotten with h.
    """

    def begin(self, projected: Array) -> None:
        self.gates, self.inner = np.empty_like(projected), np.empty_like(projected[..., : projected.shape[2] // 3])

    def step(self, t: int, inputs: Array, state: Array, weight: Array, *more: Array) -> Array:
        width = state.shape[1]
        a = state @ weight.T
        gates = self.gates[t]
        gates[:, : 2 * width] = sigmoid(a[:, : 2 * width] + inputs[:, : 2 * width])
        self.inner[t] = a[:, 2 * width :] + more[0]
        reset, update = gates[:, :width], gates[:, width : 2 * width]
        new = gates[:, 2 * width :]
        np.tanh(inputs[:, 2 * width :] + reset * self.inner[t], out=new)
        return new + update * (state - new)

    def step_back(self, t: int, gradient: Array, inputs: Array, recalled: Array, weight: Array) -> Array:
        width = gradient.shape[1]
        reset, update, new = np.split(self.gates[t], 3, -1)
        to_new = gradient * (1 - update) * (1 - new * new)
        inputs[:, :width] = to_new * self.inner[t] * reset * (1 - reset)
        inputs[:, width : 2 * width] = gradient * (self.states[t] - new) * update * (1 - update)
        inputs[:, 2 * width :] = to_new
        recalled[:] = inputs
        recalled[:, 2 * width :] *= reset
        return gradient * update + recalled @ weight

    def recalled(self, inputs: Array) -> Array:
        return np.empty_like(inputs)

    def more(self, recalled: Array) -> Gradients:
        return (recalled[:, 2 * recalled.shape[1] // 3 :].sum(0),)


class LSTM(Recurrent):
    """i, f, o = σ(W h + ...), g = tanh(W h + ...); c_t = f ⊙ c_{t-1} + i ⊙ g, h_t = o ⊙ tanh(c_t).

    A state is h and c side by side: (batch, 2 · width).
    """

    def begin(self, projected: Array) -> None:
        self.gates = np.empty_like(projected)

    def step(self, t: int, inputs: Array, state: Array, weight: Array, *more: Array) -> Array:
        width = state.shape[1] // 2
        a = self.gates[t]
        np.matmul(state[:, :width], weight.T, out=a)
        a += inputs
        a[:, : 2 * width] = sigmoid(a[:, : 2 * width])
        np.tanh(a[:, 2 * width : 3 * width], out=a[:, 2 * width : 3 * width])
        a[:, 3 * width :] = sigmoid(a[:, 3 * width :])
        i, f, g, o = np.split(a, 4, -1)
        c = f * state[:, width:] + i * g
        return np.concatenate([o * np.tanh(c), c], -1)

    def step_back(self, t: int, gradient: Array, inputs: Array, recalled: Array, weight: Array) -> Array:
        width = gradient.shape[1] // 2
        i, f, g, o = np.split(self.gates[t], 4, -1)
        before, shown = self.states[t, :, width:], np.tanh(self.states[t + 1, :, width:])
        to_h, to_c = gradient[:, :width], gradient[:, width:]
        to_c = to_c + to_h * o * (1 - shown * shown)
        inputs[:, :width] = to_c * g * i * (1 - i)
        inputs[:, width : 2 * width] = to_c * before * f * (1 - f)
        inputs[:, 2 * width : 3 * width] = to_c * i * (1 - g * g)
        inputs[:, 3 * width :] = to_h * shown * o * (1 - o)
        return np.concatenate([inputs @ weight, to_c * f], -1)

    def hidden(self, states: Array, weight: Array) -> Array:
        return np.ascontiguousarray(states[..., : weight.shape[1]])
