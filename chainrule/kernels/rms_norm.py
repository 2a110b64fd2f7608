"""RMSNorm of rows and its gradient, a row at a time: y = gain ⊙ x̂ with x̂ = s x and s = 1 / √(mean x² + ε);
dx = s (g - x̂ mean(g ⊙ x̂)) with g = gain ⊙ dy, and dgain = Σ_rows dy ⊙ x̂.
"""

import numpy as np

from chainrule.kernels.atomic import claim_some, wait_for_all
from chainrule.kernels.jit import inlined, kernel, kernel_of_sums

Array = np.ndarray
ROWS = 64  # of a piece, whose part of the gain's gradient is summed apart, whichever thread has it


@inlined
def pieces_of(rows: int) -> int:
    return (rows + ROWS - 1) // ROWS


@kernel
def rms_norm(x: Array, gain: Array, epsilon: np.float32, y: Array, scales: Array, counters: Array, thread: int,
             threads: int) -> None:  # fmt: skip
    """x and y (rows, width); scales (rows,) becomes s."""
    pieces = pieces_of(len(x))
    first, last = claim_some(counters, 0, pieces)
    while first < last:
        for row in range(first * ROWS, min(last * ROWS, len(x))):
            scales[row] = scale_of(x[row], epsilon)
            put_scaled(x[row], gain, scales[row], y[row])
        first, last = claim_some(counters, 0, pieces)
    wait_for_all(counters, 1, threads)


@kernel
def rms_norm_gradient(x: Array, gain: Array, scales: Array, to_y: Array, to_x: Array, to_gain: Array,
                      counters: Array, thread: int, threads: int) -> None:  # fmt: skip
    """to_gain (pieces, width) begins with zeros and receives the sum of each piece."""
    pieces = pieces_of(len(x))
    first, last = claim_some(counters, 0, pieces)
    while first < last:
        for row in range(first * ROWS, min(last * ROWS, len(x))):
            put_gradient(x[row], gain, scales[row], to_y[row], to_x[row], to_gain[row // ROWS])
        first, last = claim_some(counters, 0, pieces)
    wait_for_all(counters, 1, threads)


@kernel_of_sums
def scale_of(x: Array, epsilon: np.float32) -> np.float32:
    """1 / √(mean x² + ε) of a row."""
    total = np.float32(0)
    for i in range(len(x)):
        total += x[i] * x[i]
    return np.float32(1) / np.sqrt(total / np.float32(len(x)) + epsilon)  # type: ignore[no-any-return]


@kernel_of_sums
def put_scaled(x: Array, gain: Array, scale: np.float32, y: Array) -> None:
    for i in range(len(x)):
        y[i] = x[i] * scale * gain[i]


@kernel_of_sums
def put_gradient(x: Array, gain: Array, scale: np.float32, to_y: Array, to_x: Array, to_gain: Array) -> None:
    """The gradient of a row; that of the gain is added to `to_gain`."""
    along = np.float32(0)
    for i in range(len(x)):
        along += to_y[i] * gain[i] * x[i]
    along *= scale * scale / np.float32(len(x))
    for i in range(len(x)):
        to_gain[i] += to_y[i] * x[i] * scale
        to_x[i] = scale * (to_y[i] * gain[i] - x[i] * along)
