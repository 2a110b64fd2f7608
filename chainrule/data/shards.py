"""Token shards: a corpus as ids on disk, memory-mapped, with an index that says what they are and where they came from.

Each shard is a stream eos d1 eos d2 ... eos of whole documents, in uint16 where the vocabulary allows it. Beside
it lie the file and line at which every document starts, so that any token can be traced to its source.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TypedDict

import numpy as np

from chainrule.data.documents import Documents
from chainrule.data.split import content_hashes
from chainrule.errors import UserError
from chainrule.kernels.jit import kernel
from chainrule.storage import load_arrays, save_arrays
from chainrule.text.base import Tokenizer

INDEX = "index.json"
TOKENS_PER_SHARD = 1 << 27
MAX_TOKENS = 1 << 31  # positions in a shard are 32-bit
FORMAT = 1
# What is kept of every document: where it starts, its file and line, the bytes its end stood for, a hash of its text.
COLUMNS = {"starts": np.int64, "lines": np.uint32, "files": np.uint32, "separators": np.uint8, "hashes": np.uint64}


@dataclass(frozen=True)
class Place:
    """Where a token stands in the user's own files."""

    path: str
    line: int


class ShardFacts(TypedDict):
    tokens: int
    documents: int


@dataclass
class Part:
    """One split of a corpus: its shards and their sizes."""

    shards: list[ShardFacts] = field(default_factory=list)
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
        self._documents: list[tuple[np.ndarray, ...]] = []

    def append(self, documents: Documents, ids: np.ndarray) -> None:
        """`ids`: the tokens of all the documents, <eos> after each."""
        if not len(documents):
            return
        if len(ids) >= MAX_TOKENS:
            raise UserError(
                f"one batch of documents has {len(ids):,} tokens; cut the text into documents below 2 billion"
            )
        if self._size + len(ids) > self._limit:
            self.cut()
        if documents.path not in self.paths:
            self.paths.append(documents.path)
        ends = np.flatnonzero(ids == self.eos) + 1  # text never spells <eos>
        assert len(ends) == len(documents)
        starts = self._size + np.concatenate([[0], ends[:-1]])
        files = np.full(len(documents), self.paths.index(documents.path), np.uint32)
        separators = np.full(len(documents), documents.separator_bytes, np.uint8)
        self._documents.append((starts, documents.lines, files, separators, content_hashes(documents)))
        self._file.write(ids.astype(self.dtype).tobytes())
        self._size += len(ids)
        self.part.tokens += len(ids)
        self.part.documents += len(documents)
        self.part.text_bytes += int(documents.sizes.sum())
        laid_out = np.empty(int((documents.ends - documents.starts).sum()) + 8 * len(documents), np.uint8)
        _lay_out(documents.buffer, documents.starts, documents.ends, laid_out)
        self._hash.update(laid_out.data)

    def cut(self) -> None:
        """Close this shard; the next document begins another."""
        if self._size > 1:
            self._finish_shard()
            self._open()

    def _finish_shard(self) -> None:
        self._file.close()
        empty = [(np.zeros(0, np.int64),) * len(COLUMNS)]
        columns = zip(COLUMNS.items(), zip(*(self._documents or empty), strict=True), strict=True)
        table = {name: np.concatenate(parts).astype(kind) for (name, kind), parts in columns}
        save_arrays(self.folder / f"{self._stem}.documents.safetensors", table)
        self.part.shards.append({"tokens": self._size, "documents": len(table["starts"])})

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


@kernel
def _lay_out(buffer, starts, ends, out):
    """Each document's size in eight bytes, then the document: what is hashed, however the text came in batches."""
    written = 0
    for document in range(len(starts)):
        size = ends[document] - starts[document]
        for byte in range(8):
            out[written + byte] = (size >> (8 * byte)) & 0xFF
        out[written + 8 : written + 8 + size] = buffer[starts[document] : ends[document]]
        written += 8 + size


def _gather(texts: list[bytes]) -> Documents:
    """Texts as documents of one buffer, of no file."""
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    buffer = np.frombuffer(bytearray(b"".join(texts)), np.uint8)  # writable: kernels compile once for all batches
    return Documents(buffer, starts[: len(texts)], ends, np.ones(len(texts), np.int64), "", 0)


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


def has_shards(folder: Path) -> bool:
    """Whether there are token shards in a folder; a task may keep its data there in another form."""
    return (folder / INDEX).is_file()


class TokenShards:
    """The shards of one split, opened for reading."""

    def __init__(self, folder: Path, name: str = "train"):
        self.folder, self.name = folder, name
        try:
            index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
            part = index["parts"][name]
            self.dtype = np.dtype({"uint16": np.uint16, "uint32": np.uint32}[index["dtype"]])
            self.tokenizer_hash = str(index["tokenizer_hash"])
            self.paths = [str(path) for path in part.pop("paths")]
            self.part = Part(**part)
            self._changed: int | None = None  # documents, once they were counted
            self._sizes = [int(entry["tokens"]) * self.dtype.itemsize for entry in self.part.shards]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(
                f"'{folder}' holds no token shards for '{name}' that can be read ({error}); train again"
            ) from None

    def _path(self, shard: int, ending: str) -> Path:
        """The path of a shard. Shards are named by number, whatever names an index may claim."""
        return self.folder / f"{self.name}-{shard:05d}{ending}"

    def __len__(self) -> int:
        return len(self.part.shards)

    def tokens(self, shard: int) -> np.ndarray:
        """One shard as a memory-mapped stream eos d1 eos ... eos."""
        path, size = self._path(shard, ".bin"), self._sizes[shard]
        found = path.stat().st_size if path.is_file() else None
        if found != size:
            has = "is missing" if found is None else f"has {found} bytes instead of {size}"
            raise UserError(f"the token shard '{path}' {has}; train again")
        return np.memmap(path, self.dtype, mode="c").view(np.ndarray)

    def table(self, shard: int) -> dict[str, np.ndarray]:
        """COLUMNS of every document of a shard."""
        path = self._path(shard, ".documents.safetensors")
        table, _ = load_arrays(path)
        if {name: array.dtype for name, array in table.items()} != {
            name: np.dtype(kind) for name, kind in COLUMNS.items()
        }:
            raise UserError(f"'{path}' is not the table of a token shard; train again")
        return table

    def documents(self, tokenizer: Tokenizer) -> Iterator[Documents]:
        """The documents as text again, with the files and lines they came from, one batch per file and shard."""
        for shard in range(len(self)):
            table, tokens = self.table(shard), self.tokens(shard)
            ends = np.append(table["starts"][1:], len(tokens))
            for file, separator in np.unique(np.stack([table["files"], table["separators"]]), axis=1).T:
                chosen = np.flatnonzero((table["files"] == file) & (table["separators"] == separator))
                texts = [tokenizer.decode(tokens[table["starts"][i] : ends[i]]).encode() for i in chosen]
                lines = table["lines"][chosen].astype(np.int64)
                yield replace(_gather(texts), lines=lines, path=self.paths[int(file)], separator_bytes=int(separator))

    def changed_documents(self, tokenizer: Tokenizer) -> int:
        """How many documents are not what their tokens spell; all of them, where a vocabulary is closed."""
        if tokenizer.is_closed or tokenizer.keeps_every_text:
            return self.part.documents if tokenizer.is_closed else 0
        if self._changed is None:
            self._changed = sum(self._changed_in(shard, tokenizer) for shard in range(len(self)))
        return self._changed

    def _changed_in(self, shard: int, tokenizer: Tokenizer) -> int:
        table, tokens = self.table(shard), self.tokens(shard)
        ends = np.append(table["starts"][1:], len(tokens)) - 1  # without <eos>
        texts = [tokenizer.spell(tokens[a:b].tolist()) for a, b in zip(table["starts"], ends, strict=True)]
        return int((content_hashes(_gather(texts)) != table["hashes"]).sum())

    def locate(self, position: int) -> tuple[int, int]:
        """(shard, position in it) of a position in the stream of all shards joined, their inner boundaries shared."""
        for shard, entry in enumerate(self.part.shards):
            if position < entry["tokens"] - 1 or shard == len(self) - 1:
                return shard, position
            position -= entry["tokens"] - 1
        raise IndexError(position)

    def place(self, shard: int, position: int, tokenizer: Tokenizer) -> Place:
        """The file and line of a position of a shard, however many lines its document has."""
        table = self.table(shard)
        document = max(int(np.searchsorted(table["starts"], position, side="right")) - 1, 0)
        before, counts = np.unique(self.tokens(shard)[table["starts"][document] : position], return_counts=True)
        newlines = sum(tokenizer.token_bytes[id].count(b"\n") * n for id, n in zip(before, counts, strict=True))
        return Place(self.paths[int(table["files"][document])], int(table["lines"][document] + newlines))
