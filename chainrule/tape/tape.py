"""Reverse-mode automatic differentiation (backpropagation) by modules: applying a module records it on a tape, and
walking the tape backwards adds up the gradients by the chain rule.

A module is a vector-valued node of the computation graph. It can do two things: `forward` turns arrays into an array,
`backward` turns dJ/d(output) into dJ/d(input) for each input. A tape holds the modules in the order in which they were
applied, so the reversed tape is a topological order: all uses of a value come before the module that computed it.
"""

from collections.abc import Callable, Iterator
from inspect import Parameter as Argument
from inspect import signature
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from chainrule.tape.operators import Operators

Array = np.ndarray
Gradients = tuple[Array | None, ...]  # one per input; None where there is none


class Value(Operators):
    """An array in a computation graph and, after `Tape.backward`, the gradient with respect to it."""

    __slots__ = ("_is_own", "array", "gradient", "is_freed", "logarithm", "needs_gradient", "tape")

    def __init__(self, array: ArrayLike, needs_gradient: bool = False, tape: "Tape | None" = None):
        self.array = np.asarray(array)
        if self.array.dtype.kind not in "fiub":
            raise ValueError(f"a value must be an array of real numbers, got {self.array.dtype}")
        if needs_gradient and self.array.dtype.kind != "f":
            self.array = self.array.astype(np.float64)
        self.needs_gradient = needs_gradient
        self.tape = tape
        self.gradient: Array | None = None
        self.is_freed = False  # the node that computed it is gone: a walk has passed it
        self.logarithm: Array | None = None  # where a module knows it more exactly than np.log(array)
        self._is_own = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.array}, gradient={self.gradient})"

    def __float__(self) -> float:
        return float(self.array)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def backward(self, gradient: ArrayLike | None = None, keep: bool = False) -> None:
        """Backpropagate from here, as `Tape.backward` does."""
        if self.tape is None:
            raise ValueError("there is nothing to walk back: no value that needs a gradient led to this one")
        self.tape.backward(self, gradient, keep)

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
    backward(gradient, output, *inputs) gives dJ/d(input) for every input, from gradient = dJ/d(output). It may also be
    written with the inputs first, named as in forward: backward(a, b, g_b) for forward(a).

    A module without a backward is made of others: its forward is given the values themselves and applies modules or
    operators to them, and the tape finds its way back through these.
    """

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    discrete: ClassVar[tuple[int, ...]] = ()  # the inputs, by number, that are ids or bools; all others become floats
    is_rearrangement: ClassVar[bool] = False  # computes nothing: ids stay ids
    inputs: tuple[Value, ...] = ()
    output: Value
    arrays: tuple[Array, ...]  # of the inputs, as forward got them
    needs: tuple[bool, ...] = ()  # which inputs need a gradient; backward may give None for the others
    _takes_inputs_first: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if hasattr(cls, "backward"):
            cls._takes_inputs_first = _takes_inputs_first(cls)

    def __call__(self, *inputs: Value | ArrayLike) -> Value:
        if not hasattr(self, "backward"):
            made: Value = self.forward(*inputs)
            return made
        values = _as_values(inputs)
        node = object.__new__(type(self))
        node.__dict__.update(self.__dict__)
        node.needs = tuple([each.needs_gradient for each in values])
        node.arrays = self._as_floats(tuple([each.array for each in values]))
        tape = _tape_of(values)
        output = Value(node.forward(*node.arrays), any(node.needs), tape)
        if output.needs_gradient:
            node.inputs, node.output = values, output
            output.tape = Tape(is_joining=True) if tape is None else tape
            output.tape.nodes.append(node)
        return output

    def parameters(self) -> list[Parameter]:
        """All parameters among its attributes and those of the modules it is made of, each once."""
        return list({id(each): each for each in _parameters_in(vars(self))}.values())

    def pass_back(self, arrived: Array) -> None:
        """From dJ/d(output), add dJ/d(input) to the gradient of every input that needs it."""
        if self._takes_inputs_first:
            found = self.backward(*self.arrays, self.output.array, arrived)
        else:
            found = self.backward(arrived, self.output.array, *self.arrays)
        if not isinstance(found, tuple | list):  # a bare array is that of the only input that needs one
            found = tuple([found if each else None for each in self.needs]) if sum(self.needs) == 1 else (found,)
        if len(found) != len(self.inputs):
            raise ValueError(
                f"{type(self).__name__}.backward must give {len(self.inputs)} gradients, one per input (None where "
                f"there is none), got {len(found)}"
            )
        for number, (part, value) in enumerate(zip(found, self.inputs, strict=True)):
            if part is None or not value.needs_gradient:
                continue
            if np.shape(part) != value.shape:
                raise ValueError(
                    f"{type(self).__name__}.backward gives a gradient of shape {np.shape(part)} for input {number} of "
                    f"shape {value.shape}; gradients must be in the order of forward's inputs and have their shapes"
                )
            part = np.asarray(part, value.array.dtype)
            if isinstance(value, Parameter) and (part is arrived or part.base is not None):
                part = part.copy()  # so that scaling one parameter's gradient in place scales no other's
            value.add_gradient(part)

    def _as_floats(self, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        """Whole numbers and bools as floats, of the other inputs' precision; but not where they are ids."""
        whole = [i for i, each in enumerate(arrays) if each.dtype.kind != "f" and i not in self.discrete]
        if not whole:
            return arrays
        floats = [each.dtype for each in arrays if each.dtype.kind == "f"]
        if self.is_rearrangement and not floats:
            return arrays
        wanted = np.result_type(*floats) if floats else np.dtype(np.float64)
        return tuple([each.astype(wanted) if i in whole else each for i, each in enumerate(arrays)])


class Tape:
    """The modules that were applied, in order. A module records itself on the tape of its inputs; none is global.

    What is computed from parameters alone is on a tape of its own, which joins the first other tape that it meets.
    """

    def __init__(self, is_joining: bool = False) -> None:
        self.nodes: list[Module] = []
        self.is_joining = is_joining

    def value(self, array: ArrayLike, needs_gradient: bool = False) -> Value:
        """An input of the graph. Every module that is applied to it is recorded on this tape."""
        return Value(array, needs_gradient, self)

    def backward(self, end: Value, gradient: ArrayLike | None = None, keep: bool = False) -> None:
        """Backpropagate from `end`: add dJ/d(value) to the gradient of every parameter, and of every input that needs
        one, that `end` was computed from. `gradient` is dJ/d(end), by default 1 for each of its entries.

        What `end` was computed by is freed on the way, so it can be walked once. With `keep` it stays, and
        intermediate values have the gradient of this walk.
        """
        if end.tape is not None and end.tape.is_joining:
            self.join(end.tape)
        if end.tape is not self:
            raise ValueError("this value was not computed on this tape")
        if not end.needs_gradient:
            raise ValueError("nothing that this value was computed from needs a gradient")
        arriving = np.ones_like(end.array) if gradient is None else np.array(gradient, end.array.dtype)
        if arriving.shape != end.shape:
            raise ValueError(f"the gradient must have the value's shape {end.shape}, got {arriving.shape}")
        path, others = self._path(end)
        if not keep:
            self.nodes = others
        for node in path:
            node.output.gradient = None  # of an earlier walk
        end.add_gradient(arriving)
        while path:
            node = path.pop()
            arrived = node.output.gradient
            if arrived is not None:
                node.pass_back(arrived)
            if not keep:
                node.output.gradient, node.output.is_freed = None, True

    def join(self, other: "Tape") -> None:
        """Take over the nodes of a tape that no node here depends on."""
        if other is not self:
            for node in other.nodes:
                node.output.tape = self
            self.nodes += other.nodes
            other.nodes = []

    def _path(self, end: Value) -> tuple[list[Module], list[Module]]:
        """The nodes that `end` was computed by, and all others."""
        reached, path, others = {id(end)}, [], []
        is_freed = end.is_freed
        for node in reversed(self.nodes):
            if id(node.output) not in reached:
                others.append(node)
                continue
            path.append(node)
            for each in node.inputs:
                reached.add(id(each))
                is_freed = is_freed or each.is_freed
        if is_freed:
            raise ValueError(
                "this part of the tape was walked back before, and freed; pass keep=True to the first backward to walk "
                "it again"
            )
        return path[::-1], others[::-1]


def _parameters_in(held: Any) -> Iterator[Parameter]:
    if isinstance(held, Parameter):
        yield held
    elif isinstance(held, Module):
        yield from _parameters_in(vars(held))
    elif isinstance(held, dict | list | tuple):
        for each in held.values() if isinstance(held, dict) else held:
            yield from _parameters_in(each)


def _as_values(inputs: tuple[Value | ArrayLike, ...]) -> tuple[Value, ...]:
    """Arrays and numbers as constants; a number has the precision of the values."""
    for each in inputs:
        if not isinstance(each, Value):
            break
    else:
        return inputs  # type: ignore[return-value]
    made = [each if isinstance(each, Value | int | float) else Value(each) for each in inputs]
    floats = [each.array.dtype for each in made if isinstance(each, Value) and each.array.dtype.kind == "f"]
    wanted = np.result_type(*floats) if floats else np.float64
    return tuple(each if isinstance(each, Value) else Value(np.asarray(each, wanted)) for each in made)


def _tape_of(values: tuple[Value, ...]) -> Tape | None:
    """The tape that all values are on, once those that may join another have done so."""
    found: Tape | None = None
    for each in values:
        tape = each.tape
        if tape is None or tape is found:
            continue
        if found is None:
            found = tape
        elif tape.is_joining and not (found.is_joining and len(found.nodes) < len(tape.nodes)):
            found.join(tape)
        elif found.is_joining:
            tape.join(found)
            found = tape
        else:
            raise ValueError(
                "values of two tapes were given to one module; what is computed from parameters is on the first tape "
                "that uses it, so compute it again for another"
            )
    return found


def _takes_inputs_first(module: type[Module]) -> bool:
    """Whether backward is written (inputs, output, gradient); anything else but (gradient, output, inputs) is refused,
    as it would run with one taken for the other."""
    arguments = list(signature(module.backward).parameters.values())[1:]
    names, inputs = [each.name for each in arguments], list(signature(module.forward).parameters)[1:]
    if names[:2] == ["gradient", "output"]:
        return False
    is_plain = all(each.kind is Argument.POSITIONAL_OR_KEYWORD for each in arguments)
    if is_plain and len(names) == len(inputs) + 2 and names[:-2] == inputs:
        return True
    shown = ", ".join(inputs)
    raise TypeError(
        f"{module.__name__}.backward must take (gradient, output, {shown}) or ({shown}, its output, its gradient), got "
        f"({', '.join(names)}); a module that applies other modules needs no backward: the tape walks through them"
    )
