"""How many threads torch computes with: more than one only where there is work for them.

A second thread has to be woken for every operation. For a small model that takes longer than it saves, and on a busy
machine, where the other core is somebody else's, many times longer.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

ENOUGH = 1_000_000_000  # multiplications of a step that are worth a second thread: twelve milliseconds of one core
_counted: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # parameters of models


def use_threads(model: Any, rows: int) -> None:
    """For the next step of `model` with so many rows, in the thread that calls this."""
    torch = sys.modules.get("torch")
    if torch is not None:
        most = _most_threads()
        wanted = most if rows * _parameters(model) >= ENOUGH else 1
        if torch.get_num_threads() != wanted:
            torch.set_num_threads(wanted)


@contextmanager
def threads_for(model: Any, rows: int) -> Iterator[None]:
    """The same within, and afterwards as many as before."""
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
    """As many as torch chose, or was told, before it was told anything here."""
    count: int = sys.modules["torch"].get_num_threads()
    return count


def _parameters(model: Any) -> int:
    if model not in _counted:
        _counted[model] = model.num_parameters
    return _counted[model]
