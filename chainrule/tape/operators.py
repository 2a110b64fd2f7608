"""What can be written with values: a + 2, a / b, a @ b, a[:, 0], a.sum(-1), a.exp(). Each applies a module, which
arithmetic.py, shapes.py and modules.py put into the table here.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from chainrule.tape.tape import Value

Axes = int | tuple[int, ...] | None  # None: all
MODULES: dict[str, Callable[..., Any]] = {}  # what makes the module of an operator, by the operator's name


class Operators:
    """The base of values. The other operand may be a value, an array or a number; arrays are broadcast as in NumPy."""

    __slots__ = ()
    __array_ufunc__ = None  # so that `array * value` is the product of values, too

    def __add__(self, other: "Value | ArrayLike") -> "Value":
        return _apply("add", self, other)

    def __radd__(self, other: "ArrayLike") -> "Value":
        return _apply("add", other, self)

    def __sub__(self, other: "Value | ArrayLike") -> "Value":
        return _apply("subtract", self, other)

    def __rsub__(self, other: "ArrayLike") -> "Value":
        return _apply("subtract", other, self)

    def __mul__(self, other: "Value | ArrayLike") -> "Value":
        return _apply("multiply", self, other)

    def __rmul__(self, other: "ArrayLike") -> "Value":
        return _apply("multiply", other, self)

    def __truediv__(self, other: "Value | ArrayLike") -> "Value":
        return _apply("divide", self, other)

    def __rtruediv__(self, other: "ArrayLike") -> "Value":
        return _apply("divide", other, self)

    def __pow__(self, other: "Value | ArrayLike") -> "Value":
        return _apply("power", self, other)

    def __rpow__(self, other: "ArrayLike") -> "Value":
        return _apply("power", other, self)

    def __matmul__(self, other: "Value | ArrayLike") -> "Value":
        return _apply("matmul", self, other)

    def __rmatmul__(self, other: "ArrayLike") -> "Value":
        return _apply("matmul", other, self)

    def __neg__(self) -> "Value":
        return _apply("scale", self, settings=(-1,))

    def __getitem__(self, key: Any) -> "Value":
        """The entries that NumPy would give for this key: numbers, slices, None, ..., arrays of numbers or of bools."""
        return _apply("index", self, settings=(key,))

    def exp(self) -> "Value":
        return _apply("exp", self)

    def log(self) -> "Value":
        return _apply("log", self)

    def sum(self, axis: Axes = None, keepdims: bool = False) -> "Value":
        return _apply("sum", self, settings=(axis, keepdims))

    def mean(self, axis: Axes = None, keepdims: bool = False) -> "Value":
        return _apply("mean", self, settings=(axis, keepdims))

    def max(self, axis: Axes = None, keepdims: bool = False) -> "Value":
        return _apply("max", self, settings=(axis, keepdims))

    def min(self, axis: Axes = None, keepdims: bool = False) -> "Value":
        return -(-self).max(axis, keepdims)

    def reshape(self, *shape: int) -> "Value":
        return _apply("reshape", self, settings=shape)

    def transpose(self, *axes: int) -> "Value":
        """The dimensions in this order; without any, in reverse, as NumPy has it."""
        return _apply("transpose", self, settings=axes)

    @property
    def T(self) -> "Value":
        return self.transpose()

    def sigmoid(self) -> "Value":
        return _apply("sigmoid", self)

    def tanh(self) -> "Value":
        return _apply("tanh", self)

    def relu(self) -> "Value":
        return _apply("relu", self)


def _apply(name: str, *operands: Any, settings: tuple[Any, ...] = ()) -> "Value":
    value: Value = MODULES[name](*settings)(*operands)
    return value
