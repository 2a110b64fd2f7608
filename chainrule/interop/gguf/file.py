"""The contents of a GGUF file: settings by name, then tensors, each of a type that may be quantised.

The gguf package trusts whatever lengths a file declares, so files are read here; its routines turn quantised blocks
into numbers.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from chainrule.errors import UserError
from chainrule.storage import widen_bfloat16

Scalar = int | float | bool

MAGIC = b"GGUF"
VERSIONS = (2, 3)
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
FLOAT32, STRING, ARRAY = 6, 8, 9
# Type: (name, numbers in a block, bytes of a block)
TYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 30: ("BF16", 1, 2), 8: ("Q8_0", 32, 34), 2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20), 12: ("Q4_K", 256, 144), 14: ("Q6_K", 256, 210),
}  # fmt: skip


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as it is stored: `data` is (rows, bytes of a row) of unsigned bytes."""

    shape: tuple[int, ...]
    kind: str
    data: np.ndarray

    def numbers(self) -> np.ndarray:
        """As float32."""
        if self.kind == "F32":
            return self.data.view(np.float32).reshape(self.shape)
        if self.kind == "F16":
            return self.data.view(np.float16).astype(np.float32).reshape(self.shape)
        if self.kind == "BF16":
            return widen_bfloat16(self.data.view(np.uint16)).reshape(self.shape)
        try:
            import gguf
        except ImportError:
            raise UserError("quantised GGUF files need: pip install 'chainrule[interop]'") from None
        kind = gguf.GGMLQuantizationType[self.kind]
        found: np.ndarray = gguf.quants.dequantize(self.data.reshape(-1, self.data.shape[-1]), kind)
        return found.reshape(self.shape).astype(np.float32, copy=False)


class _Reader:
    """Reads a file from front to back; every length is compared with what is left of the file."""

    def __init__(self, data: np.ndarray, path: Path):
        self.data, self.path, self.place = data, path, 0

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.place:
            raise UserError(f"'{self.path}' is cut off, or declares more than it holds; download it again")
        piece = self.data[self.place : self.place + count].tobytes()
        self.place += count
        return piece

    def unpack(self, code: str) -> Scalar:
        """The next number, of the type that this code of the struct module stands for."""
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def whole(self, code: str) -> int:
        return int(self.unpack(code))

    def text(self) -> str:
        return self.take(self.whole("Q")).decode("utf-8", "replace")

    def value(self, depth: int = 0) -> object:
        """The next setting: a number, a text, or a list of these."""
        return self._value_of(self.whole("I"), depth)

    def _value_of(self, kind: int, depth: int) -> object:
        if kind == FLOAT32:
            return float(str(np.float32(self.unpack("f"))))  # 1e-05, not 9.999999747378752e-06
        if kind in SCALARS:
            return self.unpack(SCALARS[kind])
        if kind == STRING:
            return self.text()
        if kind != ARRAY or depth > 1:
            raise UserError(
                f"'{self.path}' has a setting of a type that GGUF does not know ({kind}); download it again"
            )
        inner, count = self.whole("I"), self.whole("Q")
        if inner in SCALARS:
            size = struct.calcsize(f"<{SCALARS[inner]}")
            data = self.take(count * size if count < 1 << 48 else 1 << 60)
            return list(struct.unpack(f"<{count}{SCALARS[inner]}", data))
        if count > len(self.data) - self.place:
            self.take(count)
        read: Callable[[], object] = self.text if inner == STRING else lambda: self._value_of(inner, depth + 1)
        return [read() for _ in range(count)]


def read_file(path: Path) -> tuple[dict[str, object], dict[str, StoredTensor]]:
    """The settings and the tensors of a file; a tensor is read from the disk when it is used."""
    try:
        size = path.stat().st_size
        data = np.memmap(path, np.uint8, mode="r").view(np.ndarray) if size else np.empty(0, np.uint8)
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None
    reader = _Reader(data, path)
    if size < 24 or reader.take(4) != MAGIC:
        raise UserError(f"'{path}' is not a GGUF file, or is cut off")
    version = reader.whole("I")
    if version not in VERSIONS:
        raise UserError(f"'{path}' is of GGUF version {version}; supported are {' and '.join(map(str, VERSIONS))}")
    tensors, settings = reader.whole("Q"), reader.whole("Q")
    found: dict[str, object] = {}
    for _ in range(_bounded(settings, reader)):
        name = reader.text()
        found[name] = reader.value()
    headers = [_header(reader) for _ in range(_bounded(tensors, reader))]
    alignment = found.get("general.alignment", 32)
    if type(alignment) is not int or not 0 < alignment <= 1 << 16:
        raise UserError(f"'{path}' has a damaged header: alignment {alignment}")
    start = -(-reader.place // alignment) * alignment
    return found, _tensors(headers, data[start:], path)


def _bounded(count: int, reader: _Reader) -> int:
    """A number of entries, refused if it is larger than the file; each entry has at least one byte."""
    if count > len(reader.data):
        reader.take(count)
    return count


def _header(reader: _Reader) -> tuple[str, tuple[int, ...], int, int]:
    name, dimensions = reader.text(), reader.whole("I")
    if not 1 <= dimensions <= 4:
        raise UserError(f"'{reader.path}' has a damaged header: '{name}' has {dimensions} dimensions")
    shape = tuple(reader.whole("Q") for _ in range(dimensions))[::-1]  # the innermost stands first in the file
    if not all(shape):  # with a zero among them, any other size would fit into the file
        raise UserError(f"'{reader.path}' has a damaged header: '{name}' has no numbers")
    return name, shape, reader.whole("I"), reader.whole("Q")


def _tensors(
    headers: list[tuple[str, tuple[int, ...], int, int]], data: np.ndarray, path: Path
) -> dict[str, StoredTensor]:
    found: dict[str, StoredTensor] = {}
    reached = 0
    for name, shape, kind, offset in sorted(headers, key=lambda header: header[3]):
        if kind not in TYPES:
            known = ", ".join(each for each, _, _ in TYPES.values())
            raise UserError(
                f"the tensor '{name}' of '{path}' is of an unsupported type ({kind}); supported are {known}"
            )
        label, numbers, size = TYPES[kind]
        if shape[-1] % numbers:
            raise UserError(f"the tensor '{name}' of '{path}' has rows of {shape[-1]}, not a multiple of {numbers}")
        row = shape[-1] // numbers * size
        total = prod(shape[:-1]) * row
        if offset < reached or offset + total > len(data):
            raise UserError(f"the tensor '{name}' of '{path}' lies beyond the file or over another; download it again")
        if name in found:
            raise UserError(f"'{path}' has the tensor '{name}' twice")
        reached = offset + total
        found[name] = StoredTensor(shape, label, data[offset:reached].reshape(-1, row))
    return found
