"""Read and split the text, train a tokenizer on its training part, write token shards."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from chainrule.data.corpus import Corpus, Reading
from chainrule.data.documents import Documents
from chainrule.data.mixture import Mixture, Source, parse_inputs
from chainrule.data.shards import Part, ShardWriter, write_index
from chainrule.data.split import Split, Splitting, content_fractions, decide
from chainrule.errors import UserError
from chainrule.progress import progress
from chainrule.text.base import Tokenizer
from chainrule.text.choice import Tokenization, make_tokenizer

Pairs = Iterator[tuple[int, Documents, Documents]]  # (number of the source, training, validation)
MIX_SEED = 0x6D6978  # which documents of a source are kept must not depend on which are validation


@dataclass
class PreparedText:
    """What the shards hold."""

    parts: dict[str, Part]
    unit: str
    notes: list[str] = field(default_factory=list)
    mixture: Mixture | None = None
    first_shards: tuple[int, ...] = (0,)  # of the training text: where each source of a mixture begins


class TextSource:
    """The text that training reads: inputs with a split, or with a validation text of their own, mixed by weight.

    `may_repeat`: whether the model reads as often as it likes, and so gets every source whole. A model that reads its
    text once gets of each source the part that keeps the shares of the mixture.
    """

    def __init__(
        self,
        inputs: Sequence[str],
        reading: Reading,
        splitting: Splitting,
        validation: Sequence[str],
        may_repeat: bool = False,
    ):
        parsed = parse_inputs(inputs)
        self.weights = [weight for _, weight in parsed]
        is_mixed = parsed[0][1] is not None
        groups = [[path] for path, _ in parsed] if is_mixed else [[path for path, _ in parsed]]
        self.corpora = [Corpus(group, reading) for group in groups]
        self.validation = Corpus(validation, reading) if validation else None
        with progress("reading", self.total_bytes) as advance:
            self.splits = [
                Split() if self.validation else decide(corpus.batches(advance), splitting, corpus.unit)
                for corpus in self.corpora
            ]
        self.mixture = self._mix() if is_mixed else None
        self.kept = self.mixture.kept() if self.mixture and not may_repeat else (1.0,) * len(self.corpora)

    def _mix(self) -> Mixture:
        sources = []
        for corpus, split, weight in zip(self.corpora, self.splits, self.weights, strict=True):
            size = sum(int(train.sizes.sum()) for train, _ in split(corpus.batches()))
            sources.append(Source(str(corpus.inputs[0]), max(size, 1), weight or 1.0))
        return Mixture(tuple(sources))

    @property
    def total_bytes(self) -> int:
        return sum(corpus.total_bytes for corpus in self.corpora)

    def pairs(self, advance: Callable[[int], None]) -> Pairs:
        """(training, validation) documents, batch after batch; of a mixture, only its share of each source."""
        for number, (corpus, split, kept) in enumerate(zip(self.corpora, self.splits, self.kept, strict=True)):
            for train, validation in split(corpus.batches(advance)):
                if kept < 1:
                    train = train.select(content_fractions(train, MIX_SEED) < kept)
                yield number, train, validation
        if self.validation:
            for documents in self.validation.batches():
                yield len(self.corpora), documents.select(np.zeros(len(documents), bool)), documents

    def notes(self) -> list[str]:
        read = [
            note for corpus in [*self.corpora, *([self.validation] if self.validation else [])] for note in corpus.notes
        ]
        return read + [split.note for split in self.splits if split.note]


def choose_tokenizer(source: TextSource, tokenization: Tokenization, default: str) -> Tokenizer:
    """One that exists, or a new one trained on the training text alone."""
    with progress("vocabulary", source.total_bytes) as advance:
        return make_tokenizer((train for _, train, _ in source.pairs(advance) if len(train)), tokenization, default)


def prepare_text(source: TextSource, tokenizer: Tokenizer, folder: Path) -> PreparedText:
    """The shards of the training and validation text, in `folder`."""
    folder.mkdir()
    size, eos = tokenizer.vocabulary_size, tokenizer.eos
    with (
        ShardWriter(folder, "train", size, eos) as train_shards,
        ShardWriter(folder, "validation", size, eos) as validation_shards,
        progress("tokens", source.total_bytes) as advance,
    ):
        first_shards = [0]
        for number, train, validation in source.pairs(advance):
            while len(first_shards) <= number < len(source.corpora):
                train_shards.cut()
                first_shards.append(len(train_shards.part.shards))
            for documents, writer in ((train, train_shards), (validation, validation_shards)):
                if len(documents):
                    writer.append(documents, tokenizer.encode_documents(documents))
        parts = {"train": train_shards.close(), "validation": validation_shards.close()}
    paths = {"train": train_shards.paths, "validation": validation_shards.paths}
    write_index(folder, parts, paths, train_shards.dtype, tokenizer.fingerprint)
    if not parts["train"].documents:
        raise UserError("there is no training text left after the split; lower validation_fraction or give more text")
    return PreparedText(parts, source.corpora[0].unit, source.notes(), source.mixture, tuple(first_shards))
