"""Named arrays in one safetensors file: written in a stream, memory-mapped on load, nothing ever executed.

The safetensors library reads and checks the header; the arrays themselves are mapped by NumPy, since the library's own
NumPy arrays are copies (0.45 s and 500 MB of memory for a file of 500 MB, in place of 0.2 ms and none), and its mapped
ones need torch, which counting models do without. Writing takes about as long as the library's, and shows its progress.
"""

import json
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from chainrule.errors import UserError
from chainrule.progress import progress

DTYPES: dict[str, np.dtype] = {
    name: np.dtype(each)
    for name, each in {
        "F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16,
        "I8": np.int8, "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_,
    }.items()
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}
DTYPES["BF16"] = np.dtype(np.uint16)  # the upper half of a float32; NumPy has no such type: see `widen_bfloat16`
PIECE = 1 << 24  # bytes that are written between two updates of the progress bar
LENGTH = struct.Struct("<Q")  # a file begins with the number of bytes of its header


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays to a file without copying them, wide types first, so that each is aligned where it lies."""
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    offset = 0
    for name, array in ordered:
        header[name] = {
            "dtype": NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(LENGTH.pack(len(text)) + text)
        with progress("storing", offset) as advance:
            for _, array in ordered:
                data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
                for start in range(0, len(data), PIECE):
                    advance(file.write(data[start : start + PIECE]))
        file.flush()
        os.fsync(file.fileno())


def load_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Arrays and metadata, memory-mapped copy-on-write: pages are read when touched, the file is never changed."""
    entries, metadata, start = _read_header(path)
    if path.stat().st_size == start:
        data = np.empty(0, np.uint8)
    else:
        data = np.memmap(path, np.uint8, mode="c", offset=start).view(np.ndarray)
    try:
        return dict(_views(data, entries)), metadata
    except (KeyError, ValueError):  # a type or a number of dimensions that NumPy does not have
        raise _damaged(path) from None


class _Entry(NamedTuple):
    name: str
    dtype: str
    shape: list[int]


def _read_header(path: Path) -> tuple[list[_Entry], dict[str, str], int]:
    """Entries in the order of their bytes, the metadata, and where the bytes start.

    The library refuses entries that overlap, leave a gap, or do not end where the file does.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(LENGTH.size)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None
    length = LENGTH.unpack(start)[0] if len(start) == LENGTH.size else 0
    if not 2 <= length <= size - LENGTH.size:
        raise UserError(f"'{path}' is not a safetensors file, or is cut off; make it again or download it again")
    try:
        with safe_open(path, framework="numpy") as found:
            slices = [(name, found.get_slice(name)) for name in found.offset_keys()]
            entries = [_Entry(name, each.get_dtype(), each.get_shape()) for name, each in slices]
            return entries, found.metadata() or {}, LENGTH.size + length
    except (SafetensorError, OSError, ValueError):
        raise _damaged(path) from None


def _damaged(path: Path) -> UserError:
    return UserError(f"'{path}' has a damaged safetensors header, or is cut off; make it again")


def _views(data: np.ndarray, entries: list[_Entry]) -> Iterator[tuple[str, np.ndarray]]:
    """Each array as a part of `data`, the bytes of all of them."""
    begin = 0
    for name, kind, shape in entries:
        dtype = DTYPES[kind]
        end = begin + dtype.itemsize * int(np.prod(shape, dtype=object))
        array = data[begin:end].view(dtype).reshape(shape)
        yield name, widen_bfloat16(array) if kind == "BF16" else array
        begin = end


def widen_bfloat16(halves: np.ndarray) -> np.ndarray:
    """The float32 values of bfloat16 numbers, which are given as unsigned integers of 16 bits."""
    return (halves.astype(np.uint32) << 16).view(np.float32)
