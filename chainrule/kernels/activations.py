"""Activations with their derivatives, element by element in one pass: GELU by tanh, and ReLU².

GELU: y = x σ(2u) with u = √(2/π) (x + 0.044715 x³), and y' = σ + 2 x u' σ (1 - σ). The exponential in σ is a polynomial
of degree 6, so that loops over it are vectorised; it is right to 1e-7, relatively.

Arrays are of float32 or of bfloat16.
"""

import math

import numpy as np

from chainrule.kernels.atomic import claim_some, wait_for_all
from chainrule.kernels.bfloat16 import rounded_like, widened
from chainrule.kernels.jit import inlined, kernel, kernel_of_products

Array = np.ndarray
PIECE = 1 << 13  # elements

INNER = np.float32(2 * math.sqrt(2 / math.pi))  # 2u = INNER (x + CUBIC x³)
CUBIC = np.float32(0.044715)
NOTHING, ONE, THREE = np.float32(0), np.float32(1), np.float32(3)
LARGEST = np.float32(87)  # e^87 is still finite in 32 bits
TO_BINARY = np.float32(1 / math.log(2))
LOG2_HIGH, LOG2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)  # log 2 as a sum, as in Cephes
ROUNDING = np.float32(3 << 22)  # added to a small float, it leaves the nearest whole number in the lowest bits
C0, C1, C2 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
C3, C4, C5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)


@inlined
def exponential(x: np.float32) -> np.float32:
    """e^x, as 2^n e^r with a whole n; x beyond ±87 counts as ±87."""
    x = min(max(x, -LARGEST), LARGEST)
    shifted = x * TO_BINARY + ROUNDING
    n = shifted - ROUNDING
    r = x - n * LOG2_HIGH - n * LOG2_LOW
    tail = ((((C0 * r + C1) * r + C2) * r + C3) * r + C4) * r + C5
    power = np.int32((np.float32(shifted).view(np.int32) << 23) + 0x3F800000).view(np.float32)  # 2^n
    return (tail * r * r + r + ONE) * power


@kernel
def gelu_tanh(x: Array, y: Array, slope: Array, counters: Array, thread: int, threads: int) -> None:
    """y = GELU(x) and slope = GELU'(x), (elements,) each."""
    first, last = claim_some(counters, 0, _pieces(x))
    while first < last:
        place = slice(first * PIECE, last * PIECE)
        _gelu_tanh(x[place], y[place], slope[place])
        first, last = claim_some(counters, 0, _pieces(x))
    wait_for_all(counters, 1, threads)


@kernel
def relu_squared(x: Array, y: Array, slope: Array, counters: Array, thread: int, threads: int) -> None:
    """y = max(x, 0)² and slope = 2 max(x, 0), (elements,) each; NaN stays NaN."""
    first, last = claim_some(counters, 0, _pieces(x))
    while first < last:
        place = slice(first * PIECE, last * PIECE)
        _relu_squared(x[place], y[place], slope[place])
        first, last = claim_some(counters, 0, _pieces(x))
    wait_for_all(counters, 1, threads)


@kernel_of_products
def _gelu_tanh(x: Array, y: Array, slope: Array) -> None:
    for i in range(len(x)):
        value = widened(x[i])
        square = value * value
        sigmoid = ONE / (ONE + exponential(-INNER * value * (ONE + CUBIC * square)))
        y[i] = rounded_like(value * sigmoid, y[i])
        derivative = sigmoid + INNER * value * (ONE + THREE * CUBIC * square) * sigmoid * (ONE - sigmoid)
        slope[i] = rounded_like(derivative, slope[i])


@kernel
def _relu_squared(x: Array, y: Array, slope: Array) -> None:
    for i in range(len(x)):
        value = widened(x[i])
        value = NOTHING if value < NOTHING else value
        y[i] = rounded_like(value * value, y[i])
        slope[i] = rounded_like(value + value, slope[i])


@inlined
def _pieces(x: Array) -> int:
    return (len(x) + PIECE - 1) // PIECE
