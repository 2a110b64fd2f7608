"""Compiled loops: Numba turns a plain function over arrays into machine code at its first call.

The code is kept on disk beside the source (or in the user's cache folder) until that source, or the source of a module
that it imports, changes: only the first run ever compiles.
"""

import inspect
import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TypeVar, TypeVarTuple, cast

import numba
from numba.core import event

from chainrule.kernels.sources import source_fingerprint

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")
F = TypeVar("F", bound=Callable[..., object])

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Compiling(event.Listener):  # type: ignore[misc]
    """Tells the person who waits at a terminal that kernels are being compiled, once per process, and remembers from
    when to when; the kernels that a kernel calls are compiled meanwhile."""

    has_said = False
    depth = 0
    began = 0.0

    def __init__(self) -> None:
        self.times: list[tuple[float, float]] = []

    def on_start(self, event: object) -> None:
        if not self.has_said and sys.stderr.isatty():
            print("compiling kernels, the first time only ...", file=sys.stderr)
        self.has_said = True
        if self.depth == 0:
            self.began = time.time()
        self.depth += 1

    def on_end(self, event: object) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.times.append((self.began, time.time()))


_COMPILING = _Compiling()
event.register("numba:compile", _COMPILING)


def compiling_seconds(since: float) -> float:
    """How long this process has compiled kernels since a time, as time.time() gives it."""
    return sum(end - max(began, since) for began, end in _COMPILING.times if end > since)


def kernel(function: F) -> F:
    """Compile without the interpreter lock, so that threads run side by side, and with IEEE division."""
    return _compile(function)


def inlined(function: F) -> F:
    """Compile a small part of other kernels into them: a call would count references to its arrays each time."""
    return _compile(function, inline="always")


def kernel_of_sums(function: F) -> F:
    """Compile a kernel whose sums may be taken in any order, so that they are vectorised."""
    return _compile(function, fastmath={"reassoc", "contract", "nsz"})


def kernel_of_products(function: F) -> F:
    """Compile a kernel in which a product and the sum it is part of may be rounded once, as one instruction."""
    return _compile(function, fastmath={"contract"})


def _compile(function: F, **options: object) -> F:
    make = partial(numba.njit, nogil=True, error_model="numpy", **options)
    try:
        fingerprint = source_fingerprint(Path(inspect.getfile(function)))
        compiled = make(cache=True)(function)
    except (RuntimeError, OSError):  # nowhere to keep the code (a read-only install, no home folder), or no source
        return cast(F, make()(function))
    if hasattr(compiled, "_cache"):  # where NUMBA_DISABLE_JIT leaves plain Python, for a debugger, there is none
        compiled._cache._cache_file._source_stamp = fingerprint
    return cast(F, compiled)


def ranges(start: int, stop: int, smallest: int = 1 << 14) -> list[tuple[int, int]]:
    """[start, stop) cut into one range per core, or into fewer where they would be smaller than `smallest`."""
    parts = max(1, min(CORES, (stop - start) // smallest))
    edges = [start + (stop - start) * part // parts for part in range(parts + 1)]
    return list(pairwise(edges))


def in_parallel(function: Callable[[*Arguments], T], arguments: Iterable[tuple[*Arguments]]) -> list[T]:
    """The results of function(*each) for each tuple of arguments, in their order, computed on one thread each.

    Kernels release the interpreter lock, so they run at the same time.
    """
    calls = list(arguments)
    if len(calls) == 1:
        return [function(*calls[0])]
    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(lambda call: function(*call), calls))
