"""The number of threads that torch computes with: more than one only where a step is large enough.

A second thread has to be woken for every operation. For a small model that takes longer than it saves, and many times
longer on a machine whose other core is busy.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Protocol
from weakref import WeakKeyDictionary

ENOUGH = 1_000_000_000  # multiplications per step that are worth a second thread: twelve milliseconds of one core


class Sized(Protocol):
    """A model that knows its number of parameters."""

    @property
    def num_parameters(self) -> int: ...


_counted: WeakKeyDictionary[Sized, int] = WeakKeyDictionary()  # numbers of parameters, which take a while to add up


def use_threads(model: Sized, rows: int) -> None:
    """Set the number of threads for the next step of `model` with so many rows, in the calling thread."""
    torch = sys.modules.get("torch")
    if torch is not None:
        most = _most_threads()
        wanted = most if rows * _parameters(model) >= ENOUGH else 1
        if torch.get_num_threads() != wanted:
            torch.set_num_threads(wanted)


@contextmanager
def threads_for(model: Sized, rows: int) -> Iterator[None]:
    """Within the block, as many threads as `use_threads` sets; afterwards as many as before."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch is not None else 0
    use_threads(model, rows)
    try:
        yield
    finally:
        if torch is not None and torch.get_num_threads() != before:
            torch.set_num_threads(before)


@cache
def _most_threads() -> int:
    """The number that torch had before this module first changed it."""
    count: int = sys.modules["torch"].get_num_threads()
    return count


def _parameters(model: Sized) -> int:
    if model not in _counted:
        _counted[model] = model.num_parameters
    return _counted[model]
