"""One source as batches of documents, about 16 MB each; a batch grows where a single document is larger."""

from collections.abc import Iterable, Iterator

import numpy as np

from chainrule.data import builtin
from chainrule.data.decoding import clean_chunks
from chainrule.data.delimiters import AUTO, find_delimiter
from chainrule.data.documents import NEWLINE, Documents, cut, separator
from chainrule.data.parquet import read_parquet
from chainrule.data.records import DEFAULT_FIELD, Record, read_csv, read_jsonl
from chainrule.data.sources import Source
from chainrule.data.streams import Meter, read_chunks, seekable
from chainrule.data.tally import Tally, line_feeds_only
from chainrule.data.texts import find_texts
from chainrule.errors import UserError

BATCH_BYTES = 16 << 20


class Reader:
    """Reads one source once, metering its progress and keeping count of what it changed or left out."""

    def __init__(
        self,
        source: Source,
        field: str = DEFAULT_FIELD,
        encoding: str = "auto",
        delimiter: str = AUTO,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self.source = source
        self.field = field
        self.encoding = encoding
        self.delimiter = find_delimiter(delimiter)
        self.batch_bytes = batch_bytes
        self.meter = Meter()
        self.tally = Tally()

    def batches(self, unit: str) -> Iterator[Documents]:
        """The documents of the source; records are cut further where the unit is line or block."""
        if self.source.holds_records:
            return batch_records(self.source.name, self.records(), unit, self.tally, self.batch_bytes)
        return cut_stream(self.text_chunks(), unit, self.source.name)

    def text_chunks(self) -> Iterator[bytes]:
        """The file's text as valid UTF-8 with line feeds only."""
        raw = read_chunks(self.source, self.meter, self.batch_bytes)
        return clean_chunks(self.source.name, raw, self.encoding, self.tally)

    def records(self) -> Iterator[Record]:
        """The file's records, empty ones too."""
        name, form = self.source.name, self.source.format
        if form == "jsonl":
            yield from read_jsonl(name, self.text_chunks(), self.field)
        elif form in ("csv", "tsv"):
            delimiter = "\t" if form == "tsv" and self.delimiter == AUTO else self.delimiter
            yield from read_csv(name, self.text_chunks(), self.field, delimiter)
        elif form == "parquet":
            with seekable(self.source, self.meter) as file:
                yield from read_parquet(name, file, self.field, self.source.size, self.meter, self.tally)
        else:
            texts = find_texts(name) if form == "texts" else builtin.texts(name, self.tally)
            for number, text in enumerate(texts, start=1):
                self.meter.position += len(text.encode())
                yield number, text


def cut_stream(chunks: Iterable[bytes], unit: str, path: str) -> Iterator[Documents]:
    """Cut a chunked text into documents, the same as if it were cut in one piece."""
    pending = bytearray()
    first_line, continues = 1, False
    for chunk in chunks:
        end = _last_cut(chunk, unit)
        if not end:
            pending += chunk
            continue
        pending += memoryview(chunk)[:end]
        buffer = np.frombuffer(pending, np.uint8)
        yield from _non_empty(cut(buffer, unit, path, first_line, continues))
        first_line += pending.count(b"\n")
        continues = True
        pending = bytearray(memoryview(chunk)[end:])
    yield from _non_empty(cut(np.frombuffer(pending, np.uint8), unit, path, first_line, continues))


def _non_empty(documents: Documents) -> Iterator[Documents]:
    if len(documents):
        yield documents


def _last_cut(chunk: bytes, unit: str) -> int:
    """Where the last document that surely ends in this chunk ends, its separator included; 0 for none."""
    if unit == "line":
        return chunk.rfind(b"\n") + 1
    if unit == "block":
        place = chunk.rfind(b"\n\n")
        while place > 0 and chunk[place - 1] == NEWLINE:
            place -= 1
        # At the front of a chunk it may be the middle of a run, and a run is cut only at its beginning.
        return place + 2 if place > 0 else 0
    if unit == "file":
        return 0
    place = chunk.rfind(separator(unit))
    return place + len(separator(unit)) if place >= 0 else 0


def batch_records(
    name: str, records: Iterable[Record], unit: str, tally: Tally, batch_bytes: int = BATCH_BYTES
) -> Iterator[Documents]:
    """Records gathered into batches; empty ones are skipped and counted."""
    texts: list[bytes] = []
    numbers: list[int] = []
    size = 0
    for number, text in records:
        if not text or text.isspace():
            tally.add("empty record{s} skipped")
            continue
        encoded = encode_text(f"{name}:{number}", line_feeds_only(text, tally))
        # Stripped records joined by a separator are cut by the same rule as a text file, all at once.
        texts.append(encoded.strip(b"\n") if unit == "block" else encoded)
        numbers.append(number)
        size += len(encoded)
        if size >= batch_bytes:
            yield _gather(name, texts, numbers, unit)
            texts, numbers, size = [], [], 0
    if texts:
        yield _gather(name, texts, numbers, unit)


def _gather(name: str, texts: list[bytes], numbers: list[int], unit: str) -> Documents:
    joint = separator(unit)
    buffer = np.frombuffer(bytearray(joint.join(texts)), np.uint8)  # writable: kernels compile once for all batches
    ends = np.cumsum([len(text) + len(joint) for text in texts], dtype=np.int64) - len(joint)
    starts = np.concatenate(([0], ends[:-1] + len(joint)))
    record_numbers = np.array(numbers, dtype=np.int64)
    if unit == "file":
        return Documents(buffer, starts, ends, record_numbers, name, 0)
    documents = cut(buffer, unit, name)
    record = np.searchsorted(starts, documents.starts, side="right") - 1
    return Documents(buffer, documents.starts, documents.ends, record_numbers[record], name, documents.separator_bytes)


def encode_text(where: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{where} has half a surrogate pair (character {error.start}), which is not valid text; write it again"
        ) from error
