"""The compiled part of reading ARPA files: lines of n-grams into rows of word ids and numbers.

It reads what every program writes, plain decimals and known words, and stops at anything else.
"""

import numpy as np

from chainrule.kernels.hashing import hash_bytes
from chainrule.kernels.jit import kernel


class WordTable:
    """Words to ids for compiled code: a hash table with open addressing over the words' bytes in one array."""

    def __init__(self, ids: dict[bytes, int]):
        self._ids = ids
        arena = np.frombuffer(b"".join(ids), np.uint8)
        edges = np.concatenate([[0], np.cumsum([len(word) for word in ids], dtype=np.int64)])
        slots = np.full(1 << (2 * len(ids)).bit_length(), -1, np.int32)
        _fill(slots, arena, edges)
        self.arrays = (slots, arena, edges, np.fromiter(ids.values(), np.int32, len(ids)))

    def id(self, word: str) -> int:
        if word.encode() not in self._ids:
            raise ValueError(f"the word '{word}' is not among the 1-grams")
        return self._ids[word.encode()]


@kernel
def _fill(slots, arena, edges):
    mask = np.uint64(len(slots) - 1)
    for entry in range(len(edges) - 1):
        slot = np.int64(hash_bytes(arena, edges[entry], edges[entry + 1], np.uint64(0)) & mask)
        while slots[slot] >= 0:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = entry


@kernel
def _find(buffer, start, end, slots, arena, edges, ids):
    mask = np.uint64(len(slots) - 1)
    slot = np.int64(hash_bytes(buffer, start, end, np.uint64(0)) & mask)
    while slots[slot] >= 0:
        entry = slots[slot]
        base = edges[entry]
        if edges[entry + 1] - base == end - start:
            i = 0
            while i < end - start and arena[base + i] == buffer[start + i]:
                i += 1
            if i == end - start:
                return ids[entry]
        slot = (slot + 1) & (len(slots) - 1)
    return np.int32(-1)


@kernel
def _field(buffer, i):
    """Where the next field of the line starts and ends; both are the same at the line's end."""
    while i < len(buffer) and (buffer[i] == 32 or buffer[i] == 9 or buffer[i] == 13):
        i += 1
    end = i
    while end < len(buffer) and not (buffer[end] == 32 or buffer[end] == 9 or buffer[end] == 13 or buffer[end] == 10):
        end += 1
    return i, end


@kernel
def _decimal(buffer, start, end):
    """(is it a plain decimal number of at most 15 digits?, its value, correctly rounded)."""
    is_negative = buffer[start] == 45
    digits, value, divisor = 0, np.int64(0), 1.0
    has_point = False
    for i in range(start + 1 if is_negative else start, end):
        if buffer[i] == 46 and not has_point:
            has_point = True
        elif 48 <= buffer[i] <= 57:
            digits += 1
            value = 10 * value + np.int64(buffer[i]) - 48
            if has_point:
                divisor *= 10.0
        else:
            return False, 0.0
        if digits > 15:
            return False, 0.0
    result = value / divisor  # both are exact, so this is the only rounding
    return digits > 0, -result if is_negative else result


@kernel
def read_rows(buffer, position, row, words, probability, backoff, offset, slots, arena, edges, ids):
    """Reads lines until all rows are full or a line is not as expected; returns where it starts, and the row."""
    while row < len(words) and position < len(buffer):
        i, end = _field(buffer, position)
        if i < end:
            is_good, value = _decimal(buffer, i, end)
            if not is_good or value > 0:
                break
            probability[row] = value
            for j in range(words.shape[1]):
                i, end = _field(buffer, end)
                id = _find(buffer, i, end, slots, arena, edges, ids)
                is_good = is_good and i < end and id >= 0
                words[row, j] = id
            i, end = _field(buffer, end)
            backoff[row] = 0.0
            if is_good and i < end:
                is_good, value = _decimal(buffer, i, end)
                backoff[row] = value
                i, end = _field(buffer, end)
            if not is_good or i < end:
                break
            offset[row] = position
            row += 1
        position = end + 1
    return position, row
