"""Token shards: a corpus as ids on disk, memory-mapped, with an index that says what they are and where they came from.

Each shard is a stream eos d1 eos d2 ... eos of whole documents, in uint16 where the vocabulary allows it. Beside
it lie the file and line at which every document starts, so that any token can be traced to its source.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import numpy as np

from chainrule.arrays import load_arrays, save_arrays
from chainrule.data.documents import Documents
from chainrule.errors import UserError

INDEX = "index.json"
TOKENS_PER_SHARD = 1 << 27
FORMAT = 1


@dataclass(frozen=True)
class Place:
    """Where a token stands in the user's own files."""

    path: str
    line: int


@dataclass
class Part:
    """One split of a corpus: its shards and their sizes."""

    shards: list[dict[str, object]] = field(default_factory=list)
    tokens: int = 0  # counted as predicted: every document's own, and its <eos>
    documents: int = 0
    text_bytes: int = 0
    text_hash: str = ""


class ShardWriter:
    """Appends encoded documents of one split; shards close at TOKENS_PER_SHARD, never inside a document."""

    def __init__(
        self,
        folder: Path,
        name: str,
        vocabulary_size: int,
        eos: int,
        tokens_per_shard: int = TOKENS_PER_SHARD,
    ):
        self.folder, self.name, self.eos = folder, name, eos
        self.dtype = np.dtype(np.uint16 if vocabulary_size <= 1 << 16 else np.uint32)
        self.part = Part()
        self.paths: list[str] = []
        self._hash = hashlib.sha256()
        self._limit = tokens_per_shard
        self._open()

    def _open(self) -> None:
        stem = f"{self.name}-{len(self.part.shards):05d}"
        self._file = open(self.folder / f"{stem}.bin", "wb")  # noqa: SIM115
        self._file.write(np.array([self.eos], self.dtype).tobytes())
        self._stem, self._size = stem, 1
        self._documents: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def append(self, documents: Documents, ids: np.ndarray) -> None:
        """`ids`: the tokens of all the documents, <eos> after each."""
        if not len(documents):
            return
        if self._size > 1 and self._size + len(ids) > self._limit:
            self._finish_shard()
            self._open()
        if documents.path not in self.paths:
            self.paths.append(documents.path)
        ends = np.flatnonzero(ids == self.eos) + 1  # text never spells <eos>
        assert len(ends) == len(documents)
        starts = self._size + np.concatenate([[0], ends[:-1]])
        files = np.full(len(documents), self.paths.index(documents.path), np.uint32)
        self._documents.append((starts, documents.lines.astype(np.uint32), files))
        self._file.write(ids.astype(self.dtype).tobytes())
        self._size += len(ids)
        self.part.tokens += len(ids)
        self.part.documents += len(documents)
        self.part.text_bytes += int(documents.sizes.sum())
        for start, end in _spans(documents):
            self._hash.update(documents.buffer[start:end].data)

    def _finish_shard(self) -> None:
        self._file.close()
        columns = [np.concatenate(column) for column in zip(*self._documents, strict=True)] or [
            np.zeros(0, np.int64)
        ] * 3
        save_arrays(
            self.folder / f"{self._stem}.documents.safetensors",
            {
                "starts": columns[0].astype(np.int64),
                "lines": columns[1].astype(np.uint32),
                "files": columns[2].astype(np.uint32),
            },
        )
        self.part.shards.append({"name": self._stem, "tokens": self._size, "documents": len(columns[0])})

    def close(self) -> Part:
        self._finish_shard()
        self.part.text_hash = self._hash.hexdigest()
        return self.part

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _spans(documents: Documents) -> Iterator[tuple[int, int]]:
    """The parts of the buffer that hold the documents; neighbours but for a separator are taken together."""
    starts, ends = documents.starts, documents.ends
    breaks = np.flatnonzero(starts[1:] - ends[:-1] > documents.separator_bytes) + 1
    firsts = np.concatenate([[0], breaks])
    lasts = np.concatenate([breaks, [len(starts)]]) - 1
    return zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True)


def write_index(
    folder: Path, parts: dict[str, Part], paths: dict[str, list[str]], dtype: np.dtype, tokenizer_hash: str
) -> None:
    index = {
        "format": FORMAT,
        "dtype": dtype.name,
        "tokenizer_hash": tokenizer_hash,
        "parts": {name: vars(part) | {"paths": paths[name]} for name, part in parts.items()},
    }
    (folder / INDEX).write_text(json.dumps(index, indent=1), encoding="utf-8")


class TokenShards:
    """The shards of one split, opened for reading."""

    def __init__(self, folder: Path, name: str = "train"):
        try:
            index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
            part = index["parts"][name]
            self.dtype = np.dtype(index["dtype"])
            self.tokenizer_hash: str = index["tokenizer_hash"]
            self.paths: list[str] = part.pop("paths")
            self.part = Part(**part)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"'{folder}' holds no token shards for '{name}' that can be read ({error}); train again"
            ) from None
        self.folder, self.name = folder, name

    def __len__(self) -> int:
        return len(self.part.shards)

    def tokens(self, shard: int) -> np.ndarray:
        """One shard as a memory-mapped stream eos d1 eos ... eos."""
        entry = self.part.shards[shard]
        path = self.folder / f"{entry['name']}.bin"
        if path.stat().st_size != int(str(entry["tokens"])) * self.dtype.itemsize:
            raise UserError(
                f"the token shard '{path}' has {path.stat().st_size} bytes, not what its index says; train again"
            )
        return np.memmap(path, self.dtype, mode="r").view(np.ndarray)

    def place(self, shard: int, position: int) -> Place:
        """The file and line of the document that holds a position of a shard."""
        entry = self.part.shards[shard]
        table, _ = load_arrays(self.folder / f"{entry['name']}.documents.safetensors")
        document = max(int(np.searchsorted(table["starts"], position, side="right")) - 1, 0)
        return Place(self.paths[int(table["files"][document])], int(table["lines"][document]))
