"""One step of a GRU, and one step back, element by element in one pass over what the products of matrices gave.

With r, z = σ(p + a), s = the part of a for n, n = tanh(p + r ⊙ s), h_t = n + z ⊙ (h_{t-1} - n), where p is what the
inputs add to the gates and a = W_h h_{t-1} + c; see `chainrule/layers/recurrence.py`. Arrays are of float32.
"""

import numpy as np

from chainrule.kernels.activations import ONE, exponential
from chainrule.kernels.jit import kernel_of_products

Array = np.ndarray
TWO = np.float32(2)


@kernel_of_products
def step(projected: Array, bias: Array, gates: Array, new: Array, hidden: Array, t: int) -> None:
    """gates[t] (batch, 3 width) is W_h h_{t-1} and becomes r, z and s; n goes to new[t], h_t to hidden[t + 1]."""
    width = new.shape[2]
    for row in range(new.shape[1]):
        p, a, n = projected[t, row], gates[t, row], new[t, row]
        before, after = hidden[t, row], hidden[t + 1, row]
        for i in range(2 * width):
            a[i] = ONE / (ONE + exponential(-(p[i] + a[i] + bias[i])))
        for i in range(width):
            recalled = a[2 * width + i] + bias[2 * width + i]
            a[2 * width + i] = recalled
            n[i] = ONE - TWO / (ONE + exponential(TWO * (p[2 * width + i] + a[i] * recalled)))
            after[i] = n[i] + a[width + i] * (before[i] - n[i])


@kernel_of_products
def step_back(total: Array, gates: Array, new: Array, hidden: Array, to_gates: Array, to_inputs: Array, t: int) -> None:
    """From dL/dh_t, total[t + 1] (batch, width): the gradients of a and of p, (batch, 3 width) each; and what z passes
    on to dL/dh_{t-1}, total[t]. (A loop for each, as compilers vectorise loops over few arrays only.)"""
    width = new.shape[2]
    for row in range(new.shape[1]):
        gradient, earlier, a, n = total[t + 1, row], total[t, row], gates[t, row], new[t, row]
        before, inner, outer = hidden[t, row], to_gates[t, row], to_inputs[t, row]
        for i in range(width):
            z = a[width + i]
            inner[width + i] = gradient[i] * (before[i] - n[i]) * z * (ONE - z)
        for i in range(width):
            outer[2 * width + i] = gradient[i] * (ONE - a[width + i]) * (ONE - n[i] * n[i])
        for i in range(width):
            inner[2 * width + i] = outer[2 * width + i] * a[i]
        for i in range(width):
            inner[i] = inner[2 * width + i] * a[2 * width + i] * (ONE - a[i])
        for i in range(width):
            earlier[i] += gradient[i] * a[width + i]
        for i in range(2 * width):
            outer[i] = inner[i]
