"""Named arrays in one safetensors file: written in a stream, memory-mapped on load, nothing ever executed."""

import json
import os
import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.errors import UserError
from chainrule.progress import progress

DTYPES: dict[str, Any] = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16,
    "I8": np.int8, "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
DTYPES["BF16"] = np.uint16  # the upper half of a float32; NumPy has no such type, so it is widened when it is read
PIECE = 1 << 24  # bytes written between two looks at the progress bar
MAX_HEADER = 100 << 20  # the limit of the safetensors library
MAX_DIMENSIONS, MAX_NUMBER = 8, 1 << 63  # NumPy counts bytes with so many bits


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None) -> None:
    """Write without copying: wide types first, so that every array is aligned where it lies in the file."""
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
        file.write(struct.pack("<Q", len(text)) + text)
        with progress("storing", offset) as advance:
            for _, array in ordered:
                data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
                for start in range(0, len(data), PIECE):
                    advance(file.write(data[start : start + PIECE]))
        file.flush()
        os.fsync(file.fileno())


def _read_header(path: Path) -> tuple[dict[str, dict[str, Any]], dict[str, str], int]:
    """(entries, metadata, where the data starts)."""
    try:
        size = path.stat().st_size
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None
    with file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 2 <= length <= min(MAX_HEADER, size - 8):
            raise UserError(f"'{path}' is not a safetensors file, or is cut off; make it again or fetch it again")
        text = file.read(length)
    try:
        header = json.loads(text)
        metadata = dict(header.pop("__metadata__", {}))
        _check_entries(header, size - 8 - length)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UserError(f"'{path}' has a damaged safetensors header, or is cut off; make it again") from None
    return header, metadata, 8 + length


def _check_entries(entries: dict[str, dict[str, Any]], room: int) -> None:
    """An error where sizes lie; nothing is computed from them before they are whole numbers, and few."""
    for entry in entries.values():
        shape, (begin, end) = entry["shape"], entry["data_offsets"]
        if type(shape) is not list or len(shape) > MAX_DIMENSIONS:
            raise ValueError
        if any(type(each) is not int or not 0 <= each < MAX_NUMBER for each in (*shape, begin, end)):
            raise ValueError
        width = np.dtype(DTYPES[entry["dtype"]]).itemsize
        if end - begin != prod(shape) * width or prod(filter(None, shape)) * width >= MAX_NUMBER:
            raise ValueError
    reached = 0
    for begin, end in sorted(entry["data_offsets"] for entry in entries.values()):
        if not reached <= begin <= end <= room:
            raise ValueError  # tensors that share bytes, or lie beyond the file
        reached = end


def load_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Arrays and metadata, memory-mapped copy-on-write: pages are read when touched, the file is never changed."""
    entries, metadata, base = _read_header(path)
    if path.stat().st_size == base:
        data = np.empty(0, np.uint8)
    else:
        data = np.memmap(path, np.uint8, mode="c", offset=base).view(np.ndarray)
    arrays = {}
    for name, entry in entries.items():
        begin, end = entry["data_offsets"]
        array = data[begin:end].view(DTYPES[str(entry["dtype"])]).reshape(entry["shape"])
        arrays[name] = widen(array) if entry["dtype"] == "BF16" else array
    return arrays, metadata


def widen(halves: np.ndarray) -> np.ndarray:
    """bfloat16, as whole numbers of 16 bits, as float32."""
    return (halves.astype(np.uint32) << 16).view(np.float32)
