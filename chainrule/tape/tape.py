"""Reverse-mode automatic differentiation (backpropagation) by modules: applying a module records it on a tape, and
walking the tape backwards adds up the gradients by the chain rule.

A module is a vector-valued node of the computation graph. It can do two things: `forward` turns arrays into an array,
`backward` turns dJ/d(output) into dJ/d(input) for each input. A tape holds the modules in the order in which they were
applied, so the reversed tape is a topological order: all uses of a value come before the module that computed it.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray
Gradients = tuple[Array | None, ...]  # one per input; None where there is none


class Value:
    """An array in a computation graph and, after `Tape.backward`, the gradient with respect to it."""

    __slots__ = ("_is_own", "array", "gradient", "needs_gradient", "tape")

    def __init__(self, array: ArrayLike, needs_gradient: bool = False, tape: "Tape | None" = None):
        self.array = np.asarray(array)
        self.needs_gradient = needs_gradient
        self.tape = tape
        self.gradient: Array | None = None
        self._is_own = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def add_gradient(self, gradient: Array) -> None:
        """Add the part of one use to dy/dv = Σᵢ dy/duᵢ duᵢ/dv. `gradient` is not written to: others may share it."""
        if self.gradient is None:
            self.gradient, self._is_own = gradient, False
        elif self._is_own:
            self.gradient += gradient
        else:
            self.gradient, self._is_own = self.gradient + gradient, True


class Parameter(Value):
    """A value that is learned. It belongs to no tape, so many tapes can use it; its gradient stays until cleared."""

    __slots__ = ()

    def __init__(self, array: ArrayLike):
        super().__init__(array, needs_gradient=True)


class Module:
    """A kind of node in the graph. Calling it applies a copy of itself, so one module may be applied many times.

    forward(*inputs) gives the output; it may set attributes for backward to use.
    backward(gradient, output, *inputs) gives dJ/d(input) for every input, from gradient = dJ/d(output).
    """

    forward: Callable[..., Array]
    backward: Callable[..., Gradients]
    inputs: tuple[Value, ...] = ()
    output: Value
    needs: tuple[bool, ...] = ()  # which inputs need a gradient; backward may give None for the others

    def __call__(self, *inputs: Value) -> Value:
        tape = _tape_of(inputs)
        node = object.__new__(type(self))
        node.__dict__.update(self.__dict__)
        node.needs = tuple(each.needs_gradient for each in inputs)
        is_recorded = tape is not None and any(node.needs)
        output = Value(node.forward(*(each.array for each in inputs)), is_recorded, tape)
        if tape is not None and is_recorded:
            node.inputs, node.output = inputs, output
            tape.nodes.append(node)
        return output


class Tape:
    """The modules that were applied, in order. A module records itself on the tape of its inputs; none is global."""

    def __init__(self) -> None:
        self.nodes: list[Module] = []

    def value(self, array: ArrayLike, needs_gradient: bool = False) -> Value:
        """An input of the graph. Every module that is applied to it is recorded on this tape."""
        return Value(array, needs_gradient, self)

    def backward(self, end: Value, gradient: ArrayLike | None = None, keep: bool = False) -> None:
        """Backpropagate from `end`: add to the gradient of every value that it was computed from.

        The tape is emptied and gradients of intermediate values are freed on the way, unless `keep` is set.
        """
        if end.tape is not self:
            raise ValueError("this value was not computed on this tape")
        end.add_gradient(np.ones_like(end.array) if gradient is None else np.asarray(gradient))
        nodes = self.nodes
        if keep:
            nodes = list(nodes)
        while nodes:
            node = nodes.pop()
            arrived = node.output.gradient
            if arrived is None:
                continue  # `end` does not depend on it
            parts = node.backward(arrived, node.output.array, *(each.array for each in node.inputs))
            for each, part in zip(node.inputs, parts, strict=True):
                if part is not None and each.needs_gradient:
                    each.add_gradient(part)
            if not keep:
                node.output.gradient = None


def _tape_of(inputs: tuple[Value, ...]) -> Tape | None:
    found = None
    for each in inputs:
        if each.tape is not None and found is not None and each.tape is not found:
            raise ValueError("values of two tapes were given to one module")
        found = each.tape or found
    return found
