"""The speed of this machine in matrix products, and the size of its memory."""

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any


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


@cache
def bfloat16_speedup(size: int = 128, rounds: int = 5) -> float:
    """How many times as fast as in float32 this processor multiplies matrices in bfloat16, in a few milliseconds.

    About 2 to 10 with instructions for it (AVX512-BF16, AMX), about 0.01 without.
    """
    import torch

    small, large = (torch.ones(size, size, dtype=each) for each in (torch.bfloat16, torch.float32))
    torch.ones(8, 8, dtype=torch.bfloat16) @ torch.ones(8, 8, dtype=torch.bfloat16)  # what is made once, by the first
    return _fastest_square(large, rounds) / _fastest_square(small, rounds)


@cache
def onednn_speedup(size: int = 256, rounds: int = 5) -> float:
    """How many times as fast as MKL oneDNN multiplies matrices in float32 here, on one thread, in a few milliseconds.

    About 2 on an AMD processor with AVX-512, about 1 on Intel's; 0 where torch was built without either.
    """
    import torch

    if not (torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()):
        return 0.0
    matrix, threads = torch.ones(size, size), torch.get_num_threads()
    by_onednn = torch.ops.mkldnn._linear_pointwise
    torch.set_num_threads(1)  # others would first have to be woken, which takes long where cores are busy
    try:
        by_onednn(matrix, matrix, None, "none", [], "")  # what is made once, by the first
        seconds = _fastest(lambda: by_onednn(matrix, matrix, None, "none", [], ""), rounds)
        return _fastest_square(matrix, rounds) / seconds
    finally:
        torch.set_num_threads(threads)


def _fastest_square(matrix: Any, rounds: int) -> float:
    """Seconds of the fastest of some products of a matrix with itself."""
    return _fastest(lambda: matrix @ matrix, rounds)


def _fastest(work: Callable[[], object], rounds: int) -> float:
    """Seconds of the fastest of some calls."""
    fastest = math.inf
    for _ in range(rounds):
        started_at = time.perf_counter()
        work()
        fastest = min(fastest, time.perf_counter() - started_at)
    return fastest


def _memory() -> float | None:
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return None
