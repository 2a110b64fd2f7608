"""The hash of bytes that tables and splits use: FNV-1a with the finaliser of SplitMix64. The same on every machine."""

import numpy as np

from chainrule.kernels.jit import inlined


@inlined
def _fold(value, buffer, start, end):
    for i in range(start, end):
        value = (value ^ np.uint64(buffer[i])) * np.uint64(0x100000001B3)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@inlined
def hash_bytes(buffer, start, end, seed):
    """A hash of 64 bits of buffer[start:end], given a seed (np.uint64)."""
    value = np.uint64(0xCBF29CE484222325) ^ (seed * np.uint64(0x9E3779B97F4A7C15))
    return _fold(value, buffer, start, end)


@inlined
def hash_spaced(buffer, start, end, spaces):
    """`hash_bytes` with seed 0 of no or one space followed by buffer[start:end]."""
    value = np.uint64(0xCBF29CE484222325)
    if spaces:
        value = (value ^ np.uint64(32)) * np.uint64(0x100000001B3)
    return _fold(value, buffer, start, end)
