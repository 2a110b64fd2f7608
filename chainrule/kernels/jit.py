"""Compiled loops: Numba turns a plain function over arrays into machine code at its first call.

The code is kept on disk beside the source (or in the user's cache), so only the first run ever compiles.
"""

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import event

T = TypeVar("T")

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


SOURCES = sorted(Path(__file__).parent.rglob("*.py"))
STAMP = (max(source.stat().st_mtime for source in SOURCES), sum(source.stat().st_size for source in SOURCES))


class _SayOnce(event.Listener):  # type: ignore[misc]
    """Compiling takes a while: let the person who waits know why, and that it is only this once."""

    has_said = False

    def on_start(self, event: Any) -> None:
        if not self.has_said and sys.stderr.isatty():
            print("compiling kernels, the first time only ...", file=sys.stderr)
        self.has_said = True

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _SayOnce())


def kernel(function: Callable[..., Any]) -> Any:
    """Compile without the interpreter lock (so that threads run side by side) and with IEEE division."""
    return _compile(function, {"nogil": True, "error_model": "numpy"})


def inlined(function: Callable[..., Any]) -> Any:
    """A small part of other kernels, written into them: a call would count references to its arrays each time."""
    return _compile(function, {"nogil": True, "error_model": "numpy", "inline": "always"})


def kernel_of_sums(function: Callable[..., Any]) -> Any:
    """A kernel whose sums may be taken in any order, so that they are vectorised."""
    return _compile(function, {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}})


def _compile(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    try:
        compiled = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to keep compiled code: a read-only install and no home folder
        return numba.njit(**options)(function)
    # Numba keeps a kernel until its own file changes, but a kernel may call another from a file that did.
    if hasattr(compiled, "_cache"):  # not where NUMBA_DISABLE_JIT leaves plain Python, for a debugger
        compiled._cache._cache_file._source_stamp = STAMP
    return compiled


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
