"""What attention does to the heads of its queries and keys, in one pass: RMSNorm (rms_norm.py), if they are normalised,
then the rotation of each pair (x_i, x_{i + r/2}) by the angle of its position.

Heads are (2, half of their width) here, and angles (time, half of a head's width).
"""

import numpy as np

from chainrule.kernels.atomic import claim_some, wait_for_all
from chainrule.kernels.jit import kernel_of_sums
from chainrule.kernels.rms_norm import ROWS, pieces_of

Array = np.ndarray


@kernel_of_sums
def turn(
    stacked: Array,
    offset: int,
    gain: Array,
    epsilon: np.float32,
    cosine: Array,
    sine: Array,
    y: Array,
    scales: Array,
    counters: Array,
    thread: int,
    threads: int,
) -> None:
    """stacked (rows, all heads, 2, half) -> y (rows, heads, 2, half): the heads from the `offset` on, as many as y has.

    gain (2, half); `scales` (rows, heads) becomes what `turn_back` needs. Where there is no norm, the gain is one and
    scales are (0, 0). Rows are positions, time after time, text after text.
    """
    pieces, half = pieces_of(len(stacked)), cosine.shape[1]
    first, last = claim_some(counters, 0, pieces)
    while first < last:
        for row in range(first * ROWS, min(last * ROWS, len(stacked))):
            time = row % len(cosine)
            for head in range(y.shape[1]):
                place, scale = offset + head, np.float32(1)
                if len(scales):
                    total = np.float32(0)
                    for i in range(half):
                        low, high = stacked[row, place, 0, i], stacked[row, place, 1, i]
                        total += low * low + high * high
                    scale = np.float32(1) / np.sqrt(total / np.float32(2 * half) + epsilon)
                    scales[row, head] = scale
                for i in range(half):
                    low = stacked[row, place, 0, i] * scale * gain[0, i]
                    high = stacked[row, place, 1, i] * scale * gain[1, i]
                    y[row, head, 0, i] = low * cosine[time, i] - high * sine[time, i]
                    y[row, head, 1, i] = high * cosine[time, i] + low * sine[time, i]
        first, last = claim_some(counters, 0, pieces)
    wait_for_all(counters, 1, threads)


@kernel_of_sums
def turn_back(
    stacked: Array,
    offset: int,
    gain: Array,
    cosine: Array,
    sine: Array,
    scales: Array,
    to_y: Array,
    to_stacked: Array,
    to_gain: Array,
    counters: Array,
    thread: int,
    threads: int,
) -> None:
    """The gradient of `turn`. to_gain (pieces, 2, half) begins with zeros and receives the sum of each piece."""
    pieces, half = pieces_of(len(stacked)), cosine.shape[1]
    first, last = claim_some(counters, 0, pieces)
    while first < last:
        for row in range(first * ROWS, min(last * ROWS, len(stacked))):
            time, piece = row % len(cosine), row // ROWS
            for head in range(to_y.shape[1]):
                place, along = offset + head, np.float32(0)
                for i in range(half):
                    to_low, to_high = to_y[row, head, 0, i], to_y[row, head, 1, i]
                    low = to_low * cosine[time, i] + to_high * sine[time, i]
                    high = to_high * cosine[time, i] - to_low * sine[time, i]
                    to_stacked[row, place, 0, i] = low
                    to_stacked[row, place, 1, i] = high
                    along += low * gain[0, i] * stacked[row, place, 0, i]
                    along += high * gain[1, i] * stacked[row, place, 1, i]
                if len(scales):
                    scale = scales[row, head]
                    along *= scale * scale / np.float32(2 * half)
                    for i in range(half):
                        low, high = to_stacked[row, place, 0, i], to_stacked[row, place, 1, i]
                        x_low, x_high = stacked[row, place, 0, i], stacked[row, place, 1, i]
                        to_gain[piece, 0, i] += low * x_low * scale
                        to_gain[piece, 1, i] += high * x_high * scale
                        to_stacked[row, place, 0, i] = scale * (low * gain[0, i] - x_low * along)
                        to_stacked[row, place, 1, i] = scale * (high * gain[1, i] - x_high * along)
        first, last = claim_some(counters, 0, pieces)
    wait_for_all(counters, 1, threads)
