"""How kernels on several threads work together: atomic counters, shared work and a barrier, which Numba lacks."""

from collections.abc import Callable, Sequence

import numba
import numpy as np
from llvmlite.ir import IRBuilder, Value
from numba import types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from chainrule.kernels.jit import inlined

BETWEEN = 8  # numbers from one counter to the next, so that each has a line of the processor's cache to itself
BARRIER = 2  # counters of a barrier
EIGHTH = 8  # a thread takes one part in so many of the work that is left
GIVEN_UP = -(1 << 62)  # the round of a barrier that not all threads will reach

Generate = Callable[[BaseContext, IRBuilder, Signature, Sequence[Value]], Value]


def _intrinsic(function: Callable[..., tuple[Signature, Generate]]) -> Callable[..., int]:
    """An operation that kernels call with the arguments of `function` after the first; it gives a number."""
    operation: Callable[..., int] = intrinsic(function)
    return operation


@_intrinsic
def add_to(typing: BaseContext, array: types.Array, index: types.Type, value: types.Type) -> tuple[Signature, Generate]:
    """array[index] += value as one atomic operation; gives what it was before."""

    def generate(context: BaseContext, builder: IRBuilder, signature: Signature, arguments: Sequence[Value]) -> Value:
        place = _place(context, builder, signature, arguments)
        return builder.atomic_rmw("add", place, arguments[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), generate


@_intrinsic
def read_now(typing: BaseContext, array: types.Array, index: types.Type) -> tuple[Signature, Generate]:
    """array[index] at this moment, ordered after everything that other threads wrote before it."""

    def generate(context: BaseContext, builder: IRBuilder, signature: Signature, arguments: Sequence[Value]) -> Value:
        place = _place(context, builder, signature, arguments)
        return builder.load_atomic(place, "seq_cst", 8)

    return types.int64(array, types.int64), generate


@_intrinsic
def _pointer(typing: BaseContext, address: types.Type, example: types.Array) -> tuple[Signature, Generate]:
    """A number as a pointer to elements of the type that `example` is an array of, for numba.carray."""

    def generate(context: BaseContext, builder: IRBuilder, signature: Signature, arguments: Sequence[Value]) -> Value:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(example.dtype)(types.int64, example), generate


@inlined
def array_at(address: int, example: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array of this shape at an address in memory, of the type that `example` has."""
    return numba.carray(_pointer(address, example), shape)  # type: ignore[attr-defined, call-overload, no-any-return]


def _place(context: BaseContext, builder: IRBuilder, signature: Signature, arguments: Sequence[Value]) -> Value:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return cgutils.get_item_pointer(context, builder, signature.args[0], array, [arguments[1]])


@inlined
def claim(counters: np.ndarray, which: int, most: int) -> int:
    """The index of the next of `most` pieces of work that no thread has begun; `most` where none is left."""
    return min(add_to(counters, which * BETWEEN, 1), most)


@inlined
def claim_some(counters: np.ndarray, which: int, most: int) -> tuple[int, int]:
    """The first and one past the last of the next pieces of work: an eighth of those that no thread has begun.

    The shares become smaller towards the end, so that no thread has to wait long for another.
    """
    left = most - read_now(counters, which * BETWEEN)
    many = max(left // EIGHTH, 1)
    first = add_to(counters, which * BETWEEN, many)
    return min(first, most), min(first + many, most)


@inlined
def wait_for_all(counters: np.ndarray, which: int, threads: int) -> None:
    """A barrier: returns once `threads` have called it. They count up one counter; the last begins the next round,
    which is the other counter. Once a thread has given up, no thread waits any more.
    """
    if threads > 1:
        round_ = read_now(counters, (which + 1) * BETWEEN)
        if round_ >= 0:
            if add_to(counters, which * BETWEEN, 1) == threads - 1:
                add_to(counters, which * BETWEEN, -threads)
                add_to(counters, (which + 1) * BETWEEN, 1)
            else:
                while read_now(counters, (which + 1) * BETWEEN) == round_:
                    pass


def give_up(counters: np.ndarray) -> None:
    """Release every thread that waits, now or later, at the barrier that these counters end with."""
    counters[-BETWEEN] = GIVEN_UP
