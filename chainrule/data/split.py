"""The split into training and validation text: a pure function of content and seed, equal documents stay together."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from chainrule.data.documents import Documents
from chainrule.data.settings import Splitting as Splitting
from chainrule.kernels.hashing import hash_bytes
from chainrule.kernels.jit import kernel

FEWEST_BYTES = 500  # of which a part is kept aside unless asked for: a figure on fewer than 50 says nothing


@kernel
def _hash_documents(buffer, starts, ends, seed, out):
    for document in range(len(starts)):
        out[document] = hash_bytes(buffer, starts[document], ends[document], seed)


def content_hashes(documents: Documents, seed: int = 0) -> np.ndarray:
    """64 bits for each document that depend on its text and the seed alone."""
    hashes = np.empty(len(documents), np.uint64)
    _hash_documents(documents.buffer, documents.starts, documents.ends, np.uint64(seed % (1 << 64)), hashes)
    return hashes


def content_fractions(documents: Documents, seed: int) -> np.ndarray:
    """A number in [0, 1) for each document that depends on its text and the seed alone."""
    return content_hashes(documents, seed) / 2.0**64


@dataclass(frozen=True)
class Split:
    """A decided split: validation is the documents whose hash is below `below`, or everything from byte `tail` on."""

    below: float = 0.0
    seed: int = 0
    tail: int | None = None
    cuts_documents: bool = False
    note: str = ""

    def __call__(self, batches: Iterator[Documents]) -> Iterator[tuple[Documents, Documents]]:
        """(training, validation) documents of each batch."""
        if self.tail is not None:
            yield from self._by_position(batches, self.tail)
            return
        for documents in batches:
            is_validation = content_fractions(documents, self.seed) < self.below
            yield documents.select(~is_validation), documents.select(is_validation)

    def _by_position(self, batches: Iterator[Documents], tail: int) -> Iterator[tuple[Documents, Documents]]:
        position = 0
        for documents in batches:
            begins = position + np.cumsum(documents.sizes) - documents.sizes
            position += int(documents.sizes.sum())
            first, second = documents.select(begins < tail), documents.select(begins >= tail)
            if self.cuts_documents and len(first) and position > tail and begins[len(first) - 1] < tail:
                cut = _character_start(documents.buffer, int(first.starts[-1] + tail - begins[len(first) - 1]))
                end = int(first.ends[-1])
                if first.starts[-1] < cut < end:
                    second = replace(
                        second,
                        starts=np.append(cut, second.starts),
                        ends=np.append(end, second.ends),
                        lines=np.append(first.lines[-1], second.lines),
                    )
                    first = replace(first, ends=np.append(first.ends[:-1], cut))
            yield first, second


def _character_start(buffer: np.ndarray, position: int) -> int:
    while position < len(buffer) and buffer[position] & 0xC0 == 0x80:
        position += 1
    return position


def decide(batches: Iterator[Documents], splitting: Splitting, unit: str) -> Split:
    """Read the corpus once and decide: with too few documents to split by hash, the tail; one alone is cut in two."""
    fraction = splitting.fraction
    if fraction == 0:
        return Split()
    documents = total = last_begin = 0
    lowest, highest, below = 1.0, 0.0, 0
    for batch in batches:
        documents += len(batch)
        total += int(batch.sizes.sum())
        last_begin = total - int(batch.sizes[-1])
        if splitting.split == "documents":
            fractions = content_fractions(batch, splitting.split_seed)
            lowest, highest = min(lowest, float(fractions.min())), max(highest, float(fractions.max()))
            below += int((fractions < fraction).sum())
    if splitting.validation_fraction is None and total < FEWEST_BYTES:
        return Split(
            note=f"nothing is kept aside for validation of so little text ({total:,} bytes); "
            "--validation-fraction 0.1 keeps a tenth"
        )
    if splitting.split == "tail" or documents < 10:
        cuts = unit == "file" or documents == 1
        note = (
            ""
            if splitting.split == "tail"
            else f"only {documents} document{'s' * (documents > 1)}: the last part is the validation text"
        )
        tail = int(total * (1 - fraction))
        return Split(tail=tail if cuts else min(tail, last_begin), cuts_documents=cuts, note=note)
    if lowest == highest:
        return Split(note="nothing is kept aside for validation: the documents are all alike")
    if below == documents:
        return Split(
            note=f"nothing is kept aside for validation: {fraction:g} of {documents} documents leaves none to train on"
        )
    if below == 0:
        return Split(below=np.nextafter(lowest, 1.0), seed=splitting.split_seed)
    return Split(below=fraction, seed=splitting.split_seed)
