"""From logits to a loss: softmax, cross-entropy, and both in one."""

from copy import copy

import numpy as np
from numpy.typing import ArrayLike

from chainrule.tape.modules import check_ids, rows
from chainrule.tape.tape import Array, Gradients, Module, Value

IGNORE = -100  # a target that does not count


def softmax(a: Array, axis: int = -1) -> Array:
    b = a - a.max(axis, keepdims=True, initial=-np.inf)
    np.exp(b, out=b)
    b /= b.sum(axis, keepdims=True)
    return b


def log_softmax(a: Array, axis: int = -1) -> Array:
    b = a - a.max(axis, keepdims=True, initial=-np.inf)
    if b.size:
        b -= np.log(np.exp(b).sum(axis, keepdims=True))
    return b


class Softmax(Module):
    """exp(a) / Σ exp(a) along an axis. Its Jacobian is diag(b) - b bᵀ.

    A probability that is too small for a float is not rounded to 0, as the gradient of its logarithm would be lost;
    that of an entry -inf is 0.
    """

    def __init__(self, axis: int = -1):
        self.axis = axis

    def __call__(self, *inputs: Value | ArrayLike) -> Value:
        output = super().__call__(*inputs)
        (a,) = (each.array if isinstance(each, Value) else np.asarray(each) for each in inputs)
        output.logarithm = log_softmax(a.astype(output.array.dtype, copy=False), self.axis)
        return output

    def forward(self, a: Array) -> Array:
        b = softmax(a, self.axis)
        return np.maximum(b, 1024 * np.finfo(a.dtype).tiny, out=b, where=a > -np.inf)

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        return (output * (gradient - (gradient * output).sum(self.axis, keepdims=True)),)


class LogSoftmax(Module):
    """a - log Σ exp(a) along an axis."""

    def __init__(self, axis: int = -1):
        self.axis = axis

    def forward(self, a: Array) -> Array:
        return log_softmax(a, self.axis)

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        return (gradient - np.exp(output) * gradient.sum(self.axis, keepdims=True),)


class CrossEntropy(Module):
    """-Σ gold · log(predicted), summed over all rows; gold is one-hot or any distribution, and 0 · log 0 is 0.

    Of a softmax it takes the logarithm that is known from the logits, so large logits give exact losses.
    """

    _logs: Array | None = None

    def __call__(self, *inputs: Value | ArrayLike) -> Value:
        module = copy(self)
        module._logs = inputs[1].logarithm if isinstance(inputs[1], Value) else None
        return super(CrossEntropy, module).__call__(*inputs)

    def forward(self, gold: Array, predicted: Array) -> Array:
        if gold.shape != predicted.shape:
            raise ValueError(
                f"gold must have the shape {predicted.shape} of the predicted probabilities, got {gold.shape}; for ids "
                "use SoftmaxCrossEntropy"
            )
        with np.errstate(divide="ignore"):
            self._logs = np.log(predicted) if self._logs is None else self._logs
        return np.asarray(-np.multiply(gold, self._logs, out=np.zeros_like(predicted), where=gold != 0).sum())

    def backward(self, gradient: Array, output: Array, gold: Array, predicted: Array) -> Gradients:
        to_predicted = np.zeros_like(predicted)
        with np.errstate(divide="ignore"):
            np.divide(-gradient * gold, predicted, out=to_predicted, where=gold != 0)
        return -gradient * self._logs if self.needs[0] else None, to_predicted


class SoftmaxCrossEntropy(Module):
    """The mean of -log softmax(logits)[target] over the targets that are not IGNORE; 0 where there are none.

    Its gradient is softmax minus one at the target: no division by a probability that may be nearly zero.
    """

    discrete = (1,)

    def forward(self, logits: Array, targets: Array) -> Array:
        if targets.shape != logits.shape[:-1]:
            raise ValueError(
                f"targets must have the shape {logits.shape[:-1]} of the logits' rows, got {targets.shape}"
            )
        wanted = targets.ravel()
        self.asked = np.flatnonzero(wanted != IGNORE)
        self.wanted = check_ids(wanted[self.asked], logits.shape[-1], "targets")
        scores = rows(logits) if len(self.asked) == len(wanted) else rows(logits)[self.asked]
        self.chances = scores - scores.max(-1, keepdims=True, initial=-np.inf)
        picked = self.chances[np.arange(len(scores)), self.wanted]
        np.exp(self.chances, out=self.chances)
        sums = self.chances.sum(-1, keepdims=True)
        self.chances /= sums
        return np.asarray((np.log(sums[:, 0]) - picked).sum() / max(len(scores), 1), logits.dtype)

    def backward(self, gradient: Array, output: Array, logits: Array, targets: Array) -> Gradients:
        inner = self.chances.copy()
        inner[np.arange(len(inner)), self.wanted] -= 1
        inner *= gradient / max(len(inner), 1)
        if len(inner) == targets.size:
            return inner.reshape(logits.shape), None
        to_logits = np.zeros_like(rows(logits))
        to_logits[self.asked] = inner
        return to_logits.reshape(logits.shape), None
