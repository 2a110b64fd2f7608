"""How much of a text a run was trained on: figures of such text do not tell how it does on new text."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypedDict

import numpy as np

from chainrule.data.documents import Documents
from chainrule.data.split import Split, content_hashes


class Seen(TypedDict):
    """How many documents of a text a run was trained on, and what a document is here."""

    documents: int
    of: int
    unit: str


class Cuttable(Protocol):
    """A text that can be cut into documents by several units; into none, where a unit cannot be had."""

    @property
    def unit(self) -> str: ...

    def cut_by(self, unit: str) -> Iterator[Documents]: ...


@dataclass(frozen=True)
class TrainedOn:
    """What a run was trained on: the hash of each document, what a document was, and how the text was split."""

    hashes: np.ndarray
    unit: str
    splits: tuple[Split, ...] = ()

    def count(self, text: Cuttable) -> Seen:
        """The documents of a text that are among them, in the way of cutting it that finds the largest share."""
        found = [self._count(batches, unit) for unit, batches in self._ways_to_cut(text)]
        return max(found, key=lambda seen: seen["documents"] / max(seen["of"], 1))

    def _ways_to_cut(self, text: Cuttable) -> Iterator[tuple[str, Iterable[Documents]]]:
        """As it is evaluated; as it was cut for training; and where the split cut a document, its first part."""
        yield text.unit, text.cut_by(text.unit)
        if self.unit != text.unit:
            yield self.unit, text.cut_by(self.unit)
        for split in self.splits:
            if split.cuts_documents:
                yield self.unit, (train for train, _ in split(text.cut_by(self.unit)))

    def _count(self, batches: Iterable[Documents], unit: str) -> Seen:
        documents = of = 0
        for batch in batches:
            documents += int(np.isin(content_hashes(batch), self.hashes).sum())
            of += len(batch)
        return {"documents": documents, "of": of, "unit": unit}
