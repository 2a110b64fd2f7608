"""From logits to a loss: softmax, cross-entropy, and both in one."""

import numpy as np

from chainrule.tape.modules import rows
from chainrule.tape.tape import Array, Gradients, Module

IGNORE = -100  # a target that does not count


def softmax(a: Array) -> Array:
    b = a - a.max(-1, keepdims=True)
    np.exp(b, out=b)
    b /= b.sum(-1, keepdims=True)
    return b


class Softmax(Module):
    """exp(a) / Σ exp(a). Its Jacobian is diag(b) - b bᵀ."""

    def forward(self, a: Array) -> Array:
        return softmax(a)

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        return (output * (gradient - (gradient * output).sum(-1, keepdims=True)),)


class LogSoftmax(Module):
    """a - log Σ exp(a)."""

    def forward(self, a: Array) -> Array:
        b = a - a.max(-1, keepdims=True)
        b -= np.log(np.exp(b).sum(-1, keepdims=True))
        return b

    def backward(self, gradient: Array, output: Array, a: Array) -> Gradients:
        return (gradient - np.exp(output) * gradient.sum(-1, keepdims=True),)


class CrossEntropy(Module):
    """-Σ gold · log(predicted), summed over all rows; gold is one-hot or any distribution."""

    def forward(self, gold: Array, predicted: Array) -> Array:
        return np.asarray(-(gold * np.log(predicted)).sum())

    def backward(self, gradient: Array, output: Array, gold: Array, predicted: Array) -> Gradients:
        return (
            -gradient * np.log(predicted) if self.needs[0] else None,
            -gradient * (gold / predicted) if self.needs[1] else None,
        )


class SoftmaxCrossEntropy(Module):
    """The mean of -log softmax(logits)[target] over the targets that are not IGNORE.

    Its gradient is softmax minus one at the target: no division by a probability that may be nearly zero.
    """

    def forward(self, logits: Array, targets: Array) -> Array:
        wanted = targets.ravel()
        self.asked = np.flatnonzero(wanted != IGNORE)
        self.wanted = wanted[self.asked]
        scores = rows(logits) if len(self.asked) == len(wanted) else rows(logits)[self.asked]
        top = scores.max(-1, keepdims=True)
        self.chances = scores - top
        picked = self.chances[np.arange(len(scores)), self.wanted]
        np.exp(self.chances, out=self.chances)
        sums = self.chances.sum(-1, keepdims=True)
        self.chances /= sums
        return np.asarray((np.log(sums[:, 0]) - picked).mean(), logits.dtype)

    def backward(self, gradient: Array, output: Array, logits: Array, targets: Array) -> Gradients:
        inner = self.chances.copy()
        inner[np.arange(len(inner)), self.wanted] -= 1
        inner *= gradient / len(inner)
        if len(inner) == targets.size:
            return inner.reshape(logits.shape), None
        to_logits = np.zeros_like(rows(logits))
        to_logits[self.asked] = inner
        return to_logits.reshape(logits.shape), None
