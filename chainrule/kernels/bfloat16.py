"""Numbers in bfloat16, which NumPy lacks: the upper half of a float32, held as an integer of 16 bits.

Kernels read and write elements by these two functions, so that one source serves arrays of either precision.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

NAN = np.int16(0x7FC0)


def widened(number: Any) -> Any:
    """An element of an array of float32 or bfloat16, as a float32."""
    return number if isinstance(number, np.floating) else (np.int32(number) << 16).view(np.float32)


def rounded_like(value: Any, number: Any) -> Any:
    """A float32 as an element of the array that `number` is an element of: the nearest, and of two the even one."""
    if isinstance(number, np.floating):
        return value
    bits = np.float32(value).view(np.int32)
    return np.int16((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) if value == value else NAN


@overload(widened, strict=False)
def _widened(number: types.Type) -> Any:
    if isinstance(number, types.Float):
        return lambda number: number
    return lambda number: np.int32(np.int32(number) << 16).view(np.float32)


@overload(rounded_like, strict=False)
def _rounded_like(value: types.Type, number: types.Type) -> Any:
    if isinstance(number, types.Float):
        return lambda value, number: value

    def rounded(value: Any, number: Any) -> Any:
        bits = np.float32(value).view(np.int32)
        return np.int16((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) if value == value else NAN

    return rounded
