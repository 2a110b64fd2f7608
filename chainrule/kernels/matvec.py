"""Products of a matrix with a few rows, at the speed of memory.

With one row, a product reads every weight once and does one multiplication with it, so the bandwidth of memory is the
limit. torch's product reaches half of that speed, and less with two to twelve rows; these kernels reach it.
"""

import numpy as np

from chainrule.kernels.atomic import claim_some, wait_for_all
from chainrule.kernels.jit import inlined, kernel, kernel_of_sums

Array = np.ndarray
FEW = 16  # rows; with more of them torch is as fast
PIECE = 1 << 14  # the fewest weights, about, that one of several threads works on at a time
COUNTERS = 3  # of `multiply`: one for its pieces of work, two for a barrier


@kernel
def multiply(weight: Array, scales: Array, rows: Array, bias: Array, results: Array, counters: Array, thread: int,
             threads: int) -> None:  # fmt: skip
    """results = rows Wᵀ + bias, by several threads: see `multiply_part`."""
    share(weight, scales, rows, bias, results, counters, 0)
    wait_for_all(counters, 1, threads)


@kernel
def share(
    weight: Array,
    scales: Array,
    rows: Array,
    bias: Array,
    results: Array,
    counters: Array,
    which: int,
) -> None:
    """One thread's share of a product: it takes pieces of it as long as there are any left."""
    outputs, width = weight.shape
    size = rows_of_piece(width)
    pieces = (outputs + size - 1) // size
    first, last = claim_some(counters, which, pieces)
    while first < pieces:
        multiply_part(weight, scales, rows, bias, results, first * size, min(last * size, outputs))
        first, last = claim_some(counters, which, pieces)


@inlined
def rows_of_piece(width: int) -> int:
    """How many outputs make a piece of work: a multiple of 16, the most that are computed at once, so that no bit of
    the result depends on which thread computes which piece."""
    return max(PIECE // width // 16 * 16, 16)


@kernel_of_sums
def multiply_part(
    weight: Array,
    scales: Array,
    rows: Array,
    bias: Array,
    results: Array,
    begin: int,
    end: int,
) -> None:
    """Outputs from `begin` to `end`: weight (outputs, width), rows (count, width), results (count, outputs).

    Where the weights are int8, `scales` (outputs,) has the factor of each of their rows; otherwise it is empty. So is
    `bias` where there is none. Four rows at a time share each weight that is read. A single row is multiplied with four
    outputs at a time that lie far apart: memory is faster when it is read in several places.
    """
    count, width = rows.shape
    whole = count - count % 4
    if whole:
        for i in range(begin, end):
            for row in range(0, whole, 4):
                first = second = third = fourth = np.float32(0)
                for j in range(width):
                    value = np.float32(weight[i, j])
                    first += value * rows[row, j]
                    second += value * rows[row + 1, j]
                    third += value * rows[row + 2, j]
                    fourth += value * rows[row + 3, j]
                _put(results, row, i, first, scales, bias)
                _put(results, row + 1, i, second, scales, bias)
                _put(results, row + 2, i, third, scales, bias)
                _put(results, row + 3, i, fourth, scales, bias)
    apart = (end - begin) // 4
    for row in range(whole, count):
        for i in range(begin, begin + apart):
            first = second = third = fourth = np.float32(0)
            for j in range(width):
                value = rows[row, j]
                first += np.float32(weight[i, j]) * value
                second += np.float32(weight[i + apart, j]) * value
                third += np.float32(weight[i + 2 * apart, j]) * value
                fourth += np.float32(weight[i + 3 * apart, j]) * value
            _put(results, row, i, first, scales, bias)
            _put(results, row, i + apart, second, scales, bias)
            _put(results, row, i + 2 * apart, third, scales, bias)
            _put(results, row, i + 3 * apart, fourth, scales, bias)
        for i in range(begin + 4 * apart, end):
            total = np.float32(0)
            for j in range(width):
                total += np.float32(weight[i, j]) * rows[row, j]
            _put(results, row, i, total, scales, bias)


@inlined
def _put(results: Array, row: int, output: int, total: np.float32, scales: Array, bias: Array) -> None:
    scale = scales[output] if len(scales) else np.float32(1)
    added = bias[output] if len(bias) else np.float32(0)
    results[row, output] = total * scale + added
