"""What kernels on several threads need to work together, as compilers offer it and Numba does not by itself."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from chainrule.kernels.jit import inlined

BETWEEN = 8  # whole numbers between two counters: each has a line of the cache to itself
BARRIER = 2  # counters of a barrier
EIGHTH = 8  # one thread takes on so small a part of what is left
GIVEN_UP = -(1 << 62)  # as the turn of a barrier that not all will come to


def _intrinsic(function: Callable[..., Any]) -> Any:
    """What it returns is called in kernels with the arguments after the first."""
    return intrinsic(function)


@_intrinsic
def add_to(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """array[index] += value in one go, whoever else does the same; what it was before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature, arguments)
        return builder.atomic_rmw("add", place, arguments[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), generate


@_intrinsic
def read_now(typing: Any, array: Any, index: Any) -> Any:
    """array[index] as it is at this moment, and whatever was written before it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature, arguments)
        return builder.load_atomic(place, "seq_cst", 8)

    return types.int64(array, types.int64), generate


@_intrinsic
def _pointer(typing: Any, address: Any, example: Any) -> Any:
    """A number as an address of what `example` is an array of, for numba.carray."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(example.dtype)(types.int64, example), generate


@inlined
def array_at(address: Any, example: Any, shape: Any) -> Any:
    """What lies at an address, as an array of this shape and of what `example` is an array of."""
    return numba.carray(_pointer(address, example), shape)  # type: ignore[attr-defined]


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return cgutils.get_item_pointer(context, builder, signature.args[0], array, [arguments[1]])


@inlined
def claim(counters: Any, which: int, most: int) -> Any:
    """The next of `most` pieces of work that nobody has begun, or one past the last."""
    return min(add_to(counters, which * BETWEEN, 1), most)


@inlined
def claim_some(counters: Any, which: int, most: int) -> Any:
    """The first and one past the last of the next pieces of work: an eighth of those that nobody has begun, so that
    little is left to wait for in the end."""
    left: Any = most - read_now(counters, which * BETWEEN)
    many = max(left // EIGHTH, 1)
    first = add_to(counters, which * BETWEEN, many)
    return min(first, most), min(first + many, most)


@inlined
def wait_for_all(counters: Any, which: int, threads: int) -> None:
    """Returns once `threads` have called it: they come to one counter, and the last one turns the other.

    Where somebody gave up, nobody waits any more.
    """
    if threads > 1:
        turn: Any = read_now(counters, (which + 1) * BETWEEN)
        if turn >= 0:
            if add_to(counters, which * BETWEEN, 1) == threads - 1:
                add_to(counters, which * BETWEEN, -threads)
                add_to(counters, (which + 1) * BETWEEN, 1)
            else:
                while read_now(counters, (which + 1) * BETWEEN) == turn:
                    pass


def give_up(counters: np.ndarray) -> None:
    """Lets everybody go who waits, or will, at the barrier that these counters end with."""
    counters[-BETWEEN] = GIVEN_UP
