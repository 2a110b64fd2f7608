"""Reverse-mode automatic differentiation by modules: applying one writes it down; walking back adds up gradients.

A module is a vector-valued node of the computation graph. It can do two things: `forward` turns arrays into an array,
`backward` turns dJ/d(output) into dJ/d(input) for each input. A tape holds the modules that were applied, in order, so
its end is reached by no path that the walk back has not already been down: reversed, it is a topological order.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray
Gradients = tuple[Array | None, ...]  # one per input; None where there is none


class Value:
    """An array on its way through a graph, and after the walk back the gradient with respect to it."""

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
        """dy/dv = Σᵢ dy/duᵢ duᵢ/dv: every use adds its part. The first may be another's too: it is not written to."""
        if self.gradient is None:
            self.gradient, self._is_own = gradient, False
        elif self._is_own:
            self.gradient += gradient
        else:
            self.gradient, self._is_own = self.gradient + gradient, True


class Parameter(Value):
    """A value that is learned. It belongs to no tape, so that many can use it; its gradient stays until cleared."""

    __slots__ = ()

    def __init__(self, array: ArrayLike):
        super().__init__(array, needs_gradient=True)


class Module:
    """One kind of node. Calling it applies a copy of itself, so that one module may be applied any number of times.

    forward(*inputs) gives the output; what backward will need besides may be kept as attributes.
    backward(gradient, output, *inputs) gives dJ/d(input) for every input, from gradient = dJ/d(output).
    """

    forward: Callable[..., Array]
    backward: Callable[..., Gradients]
    inputs: tuple[Value, ...] = ()
    output: Value
    needs: tuple[bool, ...] = ()  # which inputs want a gradient; to compute the others is a waste

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
    """What was applied, in order. Modules write to the tape that their inputs come from, so there is no global one."""

    def __init__(self) -> None:
        self.nodes: list[Module] = []

    def value(self, array: ArrayLike, needs_gradient: bool = False) -> Value:
        """The beginning of a graph: an input. All that is computed from it is written down here."""
        return Value(array, needs_gradient, self)

    def backward(self, end: Value, gradient: ArrayLike | None = None, keep: bool = False) -> None:
        """Walk back from `end`, adding to the gradients of all that it was made from.

        What a node holds is freed as soon as the walk has passed it, unless it is to be looked at (keep).
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
                continue  # nothing that leads to the end has used it
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
