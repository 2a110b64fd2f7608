"""Optimizers (SGD with momentum, AdamW), gradient clipping, and a learning-rate schedule. `step` clears gradients."""

from collections.abc import Callable, Iterable, Sequence
from math import cos, pi

import numpy as np

from chainrule.tape.tape import Array, Parameter, Tape, Value


class SGD:
    """θ ← θ - rate · g; with momentum, θ ← θ - rate · m where m ← momentum · m + g."""

    def __init__(self, parameters: Iterable[Parameter], rate: float, momentum: float = 0.0):
        self.parameters, self.rate, self.momentum = list(parameters), rate, momentum
        self._velocities = [np.zeros_like(each.array) for each in self.parameters] if momentum else []

    def step(self, factor: float = 1.0) -> None:
        for index, each in enumerate(self.parameters):
            if each.gradient is None:
                continue
            change = each.gradient
            if self.momentum:
                change = self._velocities[index]
                change *= self.momentum
                change += each.gradient
            each.array -= change * each.array.dtype.type(self.rate * factor)
            each.gradient = None


class AdamW:
    """Adam (Kingma & Ba 2015): the running mean of gradients, divided by the root of the running mean of their squares,
    with weight decay of matrices that is decoupled from the gradient (Loshchilov & Hutter 2019).
    """

    def __init__(self, parameters: Iterable[Parameter], rate: float, betas: tuple[float, float] = (0.9, 0.999),
                 decay: float = 0.0, epsilon: float = 1e-8):  # fmt: skip
        self.parameters, self.rate, self.betas = list(parameters), rate, betas
        self.decay, self.epsilon = decay, epsilon
        self._counts = [0] * len(self.parameters)  # of steps: a parameter without a gradient makes none
        self._means = [np.zeros_like(each.array) for each in self.parameters]
        self._squares = [np.zeros_like(each.array) for each in self.parameters]

    def step(self, factor: float = 1.0) -> None:
        (beta1, beta2), rate = self.betas, self.rate * factor
        for index, (each, mean, square) in enumerate(zip(self.parameters, self._means, self._squares, strict=True)):
            g = each.gradient
            if g is None:
                continue
            self._counts[index] += 1
            size = rate / (1 - beta1 ** self._counts[index])
            correction = (1 - beta2 ** self._counts[index]) ** 0.5
            if self.decay and each.array.ndim > 1:
                each.array *= 1 - rate * self.decay
            mean *= beta1
            mean += (1 - beta1) * g
            square *= beta2
            square += (1 - beta2) * (g * g)
            root = np.sqrt(square)
            root /= correction
            root += self.epsilon
            np.divide(mean, root, out=root)
            root *= size
            each.array -= root
            each.gradient = None


def clip_by_global_norm(parameters: Iterable[Parameter], limit: float) -> float:
    """Scale all gradients down if their norm, as one vector, is above the limit; returns the norm before."""
    found = [each for each in parameters if each.gradient is not None]
    norm = float(sum(np.vdot(each.gradient, each.gradient) for each in found if each.gradient is not None)) ** 0.5
    if limit and norm > limit:
        for each in found:
            each.gradient = each.gradient * each.array.dtype.type(limit / (norm + 1e-6))
    return norm


def warmup_cosine(progress: float, warmup: float = 0.0) -> float:
    """The learning rate's factor at `progress` (0 to 1): a linear warm-up to 1, then half a cosine down to 0."""
    if progress < warmup:
        return progress / warmup
    return 0.5 * (1 + cos(pi * min((progress - warmup) / max(1 - warmup, 1e-12), 1.0)))


def minibatch_sgd(
    loss: Callable[[Tape, Sequence[Array]], Value],
    parameters: Sequence[Parameter],
    examples: Sequence[Array],
    rate: float,
    epochs: int,
    batch_size: int = 1,
    seed: int = 0,
) -> list[float]:
    """Minibatch SGD: in each epoch the examples are shuffled, and every batch gives one step against the gradient of
    its mean loss. `examples` are arrays of equal length; returns the average training loss after each epoch."""
    generator, optimizer, count = np.random.default_rng(seed), SGD(parameters, rate), len(examples[0])
    averages = []
    for _ in range(epochs):
        order = generator.permutation(count)
        for begin in range(0, count, batch_size):
            tape = Tape()
            chosen = order[begin : begin + batch_size]
            tape.backward(loss(tape, [each[chosen] for each in examples]))
            optimizer.step()
        averages.append(float(loss(Tape(), examples).array))
    return averages
