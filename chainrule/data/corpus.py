"""A person's own text as a corpus: inputs and settings in, batches of documents out, as often as wanted."""

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import TypeVar

from chainrule.data.documents import Documents
from chainrule.data.formats import BATCH_BYTES, Reader, cut_stream
from chainrule.data.settings import Reading as Reading
from chainrule.data.sources import Source, expand
from chainrule.errors import UserError

ENOUGH_DOCUMENTS = 20
# To choose a unit, a file is looked at in small pieces, and not beyond so many of them.
PROBE_BYTES = 1 << 20
PROBED_CHUNKS = 64
MOST_REASONS = 5  # of skipped files that are told in full

T = TypeVar("T")


DEFAULT_READING = Reading()


class Corpus:
    """The documents of all inputs. Making one only finds the files and the unit; `batches` reads."""

    files: list[Source]
    total_bytes: int  # on disk, for progress bars
    unit: str  # file, block or line
    changed_documents = 0  # they are what is in the files

    def __init__(self, inputs: Sequence[str | os.PathLike[str]], reading: Reading = DEFAULT_READING) -> None:
        reading.check()
        self.inputs = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
        self.reading = reading
        self.files = expand(self.inputs)
        self.total_bytes = sum(source.size for source in self.files)
        self._notes: dict[str, list[str]] = {}
        self._skipped: dict[str, str] = {}  # files that cannot be read, and why
        self._check_not_empty()
        self.unit = self._choose_unit() if reading.unit == "auto" else reading.unit

    @property
    def notes(self) -> list[str]:
        """What was changed or left out in the files read so far, one sentence each."""
        notes = [note for source in self.files for note in self._notes.get(source.name, [])]
        return [*notes, *self._note_skipped()]

    def _note_skipped(self) -> list[str]:
        if not self._skipped:
            return []
        count = f"{len(self._skipped)} of {len(self.files)} files skipped"
        more = f"; and {len(self._skipped) - MOST_REASONS} more" if len(self._skipped) > MOST_REASONS else ""
        return [f"{count}: {'; '.join([*self._skipped.values()][:MOST_REASONS])}{more}"]

    def _unless_bad(self, source: Source, read: Iterator[T]) -> Iterator[T]:
        """What is read of a file; where it goes no further, that is noted, unless the user named this very file."""
        try:
            yield from read
        except UserError as error:
            if source.is_named:
                raise
            self._skipped[source.name] = str(error)

    def _reader(self, source: Source, batch_bytes: int = BATCH_BYTES) -> Reader:
        reading = self.reading
        return Reader(source, reading.field, reading.encoding, reading.delimiter, batch_bytes)

    def batches(self, progress: Callable[[int], None] | None = None) -> Iterator[Documents]:
        """All documents, from the first file on; `progress` is told the bytes read since its last call."""
        for source in self.files:
            reader = self._reader(source)
            reported = 0
            for documents in self._unless_bad(source, reader.batches(self._unit_of(source))):
                if progress and reader.meter.position > reported:
                    progress(reader.meter.position - reported)
                    reported = reader.meter.position
                yield documents
            self._notes[source.name] = reader.tally.notes(source.name)
            if progress and source.size > reported:
                progress(source.size - reported)

    def cut_by(self, unit: str) -> Iterator[Documents]:
        """All documents, cut by another unit; records too."""
        if unit == self.unit:
            return self.batches()
        read = (self._unless_bad(source, self._reader(source).batches(unit)) for source in self.files)
        return chain.from_iterable(read)

    def _unit_of(self, source: Source) -> str:
        """Records are cut further only where the user asked for a unit."""
        return "file" if source.holds_records and self.reading.unit == "auto" else self.unit

    def _choose_unit(self) -> str:
        """The coarsest unit that gives enough documents, else lines if there are several, else files."""
        texts = [source for source in self.files if not source.holds_records]
        if not texts:
            return "file"
        records = self._count([source for source in self.files if source.holds_records], "file", 0)
        if records + len(texts) >= ENOUGH_DOCUMENTS:
            written = sum(1 for _ in islice(filter(self._has_text, texts), ENOUGH_DOCUMENTS))
            if records + written >= ENOUGH_DOCUMENTS:
                return "file"
        if self._count(texts, "block", records) >= ENOUGH_DOCUMENTS:
            return "block"
        return "line" if self._count(texts, "line", records) > 1 else "file"

    def _count(self, sources: list[Source], unit: str, count: int) -> int:
        """How many documents there are beside `count`, counted no further than what is enough."""
        for source in sources:
            for documents in self._probe(source, unit):
                count += len(documents)
                if count >= ENOUGH_DOCUMENTS:
                    return count
        return count

    def _probe(self, source: Source, unit: str) -> Iterator[Documents]:
        reader = self._prober(source)
        if source.holds_records:
            return self._unless_bad(source, reader.batches(unit))
        chunks = self._unless_bad(source, reader.text_chunks())
        return cut_stream(islice(chunks, PROBED_CHUNKS), unit, source.name)

    def _has_text(self, source: Source) -> bool:
        """Whether there is a document in a file, which is read only as far as its first letter."""
        reader = self._prober(source)
        if source.holds_records:
            return any(len(documents) for documents in self._unless_bad(source, reader.batches("file")))
        return any(not chunk.decode().isspace() for chunk in self._unless_bad(source, reader.text_chunks()))

    def _prober(self, source: Source) -> Reader:
        return self._reader(source, PROBE_BYTES)

    def _check_not_empty(self) -> None:
        if any(map(self._has_text, self.files)):
            return
        if self._skipped:
            raise UserError(f"nothing can be read: {self._note_skipped()[0]}")
        named = " and ".join(f"'{name}'" for name in self.inputs[:3]) + " and more" * (len(self.inputs) > 3)
        several = len(self.inputs) > 1
        if any(source.holds_records for source in self.files):
            state = "hold no records with text" if several else "holds no records with text"
        elif any(chunk for source in self.files for chunk in self._prober(source).text_chunks()):
            state = "hold only whitespace" if several else "holds only whitespace"
        else:
            state = "are empty" if several else "is empty"
        raise UserError(f"{named} {state}: nothing to learn from")
