"""Which spans of a UTF-8 buffer hold only whitespace, as `str.isspace` has it, without a loop per span."""

import numpy as np

# Every whitespace character lies below U+10000, so its UTF-8 form has one, two or three bytes.
SPACES = [chr(code).encode() for code in range(0xD800) if chr(code).isspace()]
ASCII_SPACE = np.isin(np.arange(256), [form[0] for form in SPACES if len(form) == 1])
WIDE_LEAD = np.isin(np.arange(256), [form[0] for form in SPACES if len(form) > 1])
TWO_BYTES = np.array([int.from_bytes(form, "big") for form in SPACES if len(form) == 2], dtype=np.int32)
THREE_BYTES = np.array([int.from_bytes(form, "big") for form in SPACES if len(form) == 3], dtype=np.int32)

# Beyond so many leading spaces few spans are left, and Python looks at each of them on its own.
VECTORISED_STEPS = 64


def are_blank(buffer: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """One boolean per span: True where buffer[start:end] is empty or only whitespace."""
    blank = ends <= starts
    remaining = np.flatnonzero(~blank)
    at = starts[remaining]
    for _ in range(VECTORISED_STEPS):
        if not len(remaining):
            return blank
        width = _space_width(buffer, at)
        at = at + width
        finished = at >= ends[remaining]
        blank[remaining[finished & (width > 0)]] = True
        undecided = (width > 0) & ~finished
        remaining, at = remaining[undecided], at[undecided]
    for span, start in zip(remaining.tolist(), at.tolist(), strict=True):
        blank[span] = buffer[start : ends[span]].tobytes().decode().isspace()
    return blank


def _space_width(buffer: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The bytes taken by the whitespace character at each position, 0 where there is none."""
    lead = buffer[at]
    width: np.ndarray = ASCII_SPACE[lead].astype(np.int64)
    wide = np.flatnonzero(WIDE_LEAD[lead])
    if len(wide):
        last = len(buffer) - 1
        second = buffer[np.minimum(at[wide] + 1, last)].astype(np.int32)
        third = buffer[np.minimum(at[wide] + 2, last)].astype(np.int32)
        pair = (lead[wide].astype(np.int32) << 8) | second
        width[wide[np.isin(pair, TWO_BYTES)]] = 2
        width[wide[np.isin((pair << 8) | third, THREE_BYTES)]] = 3
    return width
