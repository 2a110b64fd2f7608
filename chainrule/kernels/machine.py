"""The speed of this machine in matrix products, and the size of its memory."""

import math
import os
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    title: str
    flops_per_second: float  # dense: without the doubling that sparse matrices get in datasheets
    number_format: str
    memory_bytes: float | None


def measure_this_machine(seconds: float = 2.0, size: int = 1024) -> Machine:
    """Time float32 matrix products for some seconds, on all threads that torch uses, and take the fastest."""
    import torch

    left, right = torch.rand(size, size), torch.rand(size, size)
    ends_at = time.perf_counter() + seconds
    fastest = math.inf
    while True:
        started_at = time.perf_counter()
        left @ right
        finished_at = time.perf_counter()
        fastest = min(fastest, finished_at - started_at)
        if finished_at >= ends_at:
            return Machine("this machine", 2 * size**3 / fastest, "float32, measured", _memory())


def _memory() -> float | None:
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return None
