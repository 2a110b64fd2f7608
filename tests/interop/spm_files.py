"""SentencePiece's files, written byte by byte as protobuf has them."""

import struct
from pathlib import Path
from typing import Any

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4


def varint(value: int) -> bytes:
    low = value & 127
    return bytes([low]) if value < 128 else bytes([low | 128]) + varint(value >> 7)


def field(number: int, value: Any) -> bytes:
    """A whole number, a float, or the bytes of a text or of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def piece(name: str, score: float, kind: int = NORMAL) -> bytes:
    return field(1, field(1, name.encode()) + field(2, score) + (field(3, kind) if kind != NORMAL else b""))


def write_spm(path: Path, scores: dict[str, float], more: bytes = b"") -> None:
    """As its own trainer writes them: three that are special first, then pieces, then the settings of both parts."""
    special = [piece("<unk>", 0.0, UNKNOWN), piece("<s>", 0.0, CONTROL), piece("</s>", 0.0, CONTROL)]
    pieces = [piece(name, score) for name, score in scores.items()]
    trainer = field(2, field(3, 1) + field(4, len(scores) + 3) + field(10, 0.9995))
    normalizer = field(3, field(1, b"identity") + field(3, 1) + field(4, 1) + field(5, 1))
    path.write_bytes(b"".join([*special, *pieces, trainer, normalizer, more]))
