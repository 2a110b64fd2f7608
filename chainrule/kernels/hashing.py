"""One hash of bytes for tables and splits: FNV-1a with a strong finish. Fast, even, and the same everywhere."""

import numpy as np

from chainrule.kernels.jit import inlined


@inlined
def hash_bytes(buffer, start, end, seed):
    """64 bits of buffer[start:end] and the seed (np.uint64)."""
    value = np.uint64(0xCBF29CE484222325) ^ (seed * np.uint64(0x9E3779B97F4A7C15))
    for i in range(start, end):
        value = (value ^ np.uint64(buffer[i])) * np.uint64(0x100000001B3)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
