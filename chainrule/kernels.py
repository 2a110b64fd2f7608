"""Compiled loops: Numba turns a plain function over arrays into machine code at its first call.

The code is kept on disk beside the source (or in the user's cache), so only the first run ever compiles.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeVar

import numba

T = TypeVar("T")

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def kernel(function: Callable[..., Any]) -> Any:
    """Compile without the interpreter lock (so that threads run side by side) and with IEEE division."""
    try:
        return numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    except RuntimeError:  # nowhere to keep compiled code: a read-only install and no home folder
        return numba.njit(nogil=True, error_model="numpy")(function)


def ranges(start: int, stop: int, smallest: int = 1 << 14) -> list[tuple[int, int]]:
    """[start, stop) cut into one range per core, or fewer where they would be smaller than `smallest`."""
    parts = max(1, min(CORES, (stop - start) // smallest))
    edges = [start + (stop - start) * part // parts for part in range(parts + 1)]
    return list(pairwise(edges))


def in_parallel(function: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> list[T]:
    """function(*each) for each tuple of arguments, on threads; kernels release the lock, so they overlap."""
    calls = list(arguments)
    if len(calls) == 1:
        return [function(*calls[0])]
    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(lambda call: function(*call), calls))
