"""How many threads torch computes with: more than one only where there is work for them.

A second thread has to be woken for every operation. For a small model that takes longer than it saves, and on a busy
machine, where the other core is somebody else's, many times longer.
"""

import sys
from functools import cache
from typing import Any

ENOUGH = 50_000_000  # multiplications of a step that are worth a second thread: half a millisecond of one core


def use_threads(model: Any, rows: int) -> None:
    """For the next step of `model` with so many rows, in the thread that calls this."""
    torch = sys.modules.get("torch")
    if torch is not None:
        most = _most_threads()
        wanted = most if rows * _parameters(model) >= ENOUGH else 1
        if torch.get_num_threads() != wanted:
            torch.set_num_threads(wanted)


@cache
def _most_threads() -> int:
    """As many as torch chose, or was told, before it was told anything here."""
    count: int = sys.modules["torch"].get_num_threads()
    return count


@cache
def _parameters(model: Any) -> int:
    count: int = model.num_parameters
    return count
