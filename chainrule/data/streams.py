"""The bytes of a source in large chunks: opened, unpacked, and metered for progress bars."""

import gzip
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from chainrule.data.sources import Source
from chainrule.errors import UserError

CHUNK_BYTES = 16 << 20
PACKED_BYTES = 64 << 10


class Meter:
    """How many bytes on disk have been read so far."""

    def __init__(self) -> None:
        self.position = 0


class MeteredFile:
    """A file that tells a meter what was read from it."""

    def __init__(self, file: BinaryIO, meter: Meter) -> None:
        self.file = file
        self.meter = meter

    def read(self, size: int = -1, /) -> bytes:
        data = self.file.read(size)
        self.meter.position += len(data)
        return data


def read_chunks(source: Source, meter: Meter, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """The unpacked bytes of a file, about `chunk_bytes` at a time."""
    unpack = UNPACKERS[source.compression]
    try:
        with open(source.path, "rb") as file:
            yield from unpack(MeteredFile(file, meter), source.name, chunk_bytes)
    except OSError as error:
        raise unreadable(source, error) from error


def unreadable(source: Source, error: OSError) -> UserError:
    """The sentence for a file that the operating system does not hand over."""
    return UserError(f"cannot read '{source.name}': {(error.strerror or str(error)).lower()}")


@contextmanager
def seekable(source: Source, meter: Meter) -> Iterator[BinaryIO]:
    """The unpacked file for formats that jump about in it; a packed one is unpacked to a temporary file."""
    try:
        if not source.compression:
            with open(source.path, "rb") as file:
                yield file
            return
        with tempfile.TemporaryFile() as unpacked:
            for chunk in read_chunks(source, meter):
                unpacked.write(chunk)
            unpacked.seek(0)
            yield unpacked
    except OSError as error:
        raise unreadable(source, error) from error


def _plain(file: MeteredFile, name: str, chunk_bytes: int) -> Iterator[bytes]:
    while chunk := file.read(chunk_bytes):
        yield chunk


def _gunzip(file: MeteredFile, name: str, chunk_bytes: int) -> Iterator[bytes]:
    try:
        with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:  # type: ignore[call-overload]
            while chunk := unpacked.read(chunk_bytes):
                yield chunk
    except EOFError as error:
        raise UserError(f"'{name}' is truncated: its gzip data has no end; copy it again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise UserError(
            f"'{name}' is not valid gzip data ({error}); compress it again, or remove the ending .gz"
        ) from error


def _unzstd(file: MeteredFile, name: str, chunk_bytes: int) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError as error:
        raise UserError(f"reading '{name}' needs zstandard; run: pip install zstandard") from error
    pending = bytearray()
    try:
        for piece in _zstd_pieces(file, name, zstandard.ZstdDecompressor(max_window_size=1 << 31)):
            pending += piece
            if len(pending) >= chunk_bytes:
                yield bytes(pending)
                pending.clear()
    except zstandard.ZstdError as error:
        raise UserError(
            f"'{name}' is not valid zstd data ({error}); compress it again, or remove the ending .zst"
        ) from error
    if pending:
        yield bytes(pending)


def _zstd_pieces(file: MeteredFile, name: str, decompressor: Any) -> Iterator[bytes]:
    # The streaming reader of zstandard takes a cut-off file for a whole one; its frame object knows better.
    frame = None
    while packed := file.read(PACKED_BYTES):
        while packed:
            frame = frame or decompressor.decompressobj()
            yield frame.decompress(packed)
            packed = frame.unused_data
            if frame.eof:
                frame = None
    if frame is not None:
        raise UserError(f"'{name}' is truncated: its zstd data has no end; copy it again")


UNPACKERS: dict[str, Callable[[MeteredFile, str, int], Iterator[bytes]]] = {
    "": _plain,
    "gz": _gunzip,
    "zst": _unzstd,
}
