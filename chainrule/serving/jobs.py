"""What is asked of a model: a prompt that is to be continued, or a source whose best targets are searched for.

The engine turns both alike. It reads them piece by piece; once one is read, its rows join those of the same model.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Protocol

from chainrule.generation import Sampling
from chainrule.generation.batch import Batch, Row
from chainrule.generation.beam import Beam, Search
from chainrule.generation.decoder import Decoder, Heed
from chainrule.generation.prompt import Prompt
from chainrule.generation.search import Searches
from chainrule.serving.library import ServedModel

Answer = list[Any] | Exception | None


class DecodingBatch(Protocol):
    """Rows of one model that decode together: samples of a `Batch`, or sentences of `Searches`. A row has a `width`,
    the places it may take; once it `is_over`, perhaps by an `error`, `roll` lets it go."""

    model: Any
    rows: list[Any]

    @property
    def size(self) -> int: ...

    def roll(self) -> list[tuple[Any, Any]]: ...

    def advance(self) -> None: ...

    def remove(self, row: Any, /) -> None: ...


@dataclass(eq=False)
class GenerationJob:
    """What comes of it arrives in `answers`, which those of a request may share: a list each turn that has something to
    tell, and at the end None."""

    served: ServedModel
    answers: "asyncio.Queue[tuple[GenerationJob, Answer]]" = field(default_factory=asyncio.Queue, kw_only=True)
    rows: list[Any] = field(default_factory=list, kw_only=True)
    is_begun: bool = field(default=False, kw_only=True)  # whether a part of it has been read
    is_cancelled: bool = field(default=False, kw_only=True)  # set when whoever asked has gone

    @property
    def count(self) -> int:
        """How many places its rows may take."""
        raise NotImplementedError

    @property
    def length(self) -> int:
        """How many tokens there are to read."""
        raise NotImplementedError

    def begin(self) -> DecodingBatch:
        """An empty batch for what is wanted in this way."""
        raise NotImplementedError

    def read_on(self, batch: Any) -> list[Any] | None:
        """Read the next piece; once all is read, the rows that have joined the batch."""
        raise NotImplementedError


@dataclass(eq=False)
class Generating(GenerationJob):
    """One prompt that is being continued: it hears tokens."""

    prompt: Prompt
    sampling: Sampling | None  # None: the prompt is only read
    heed: Heed | None = None
    reader: Decoder | None = None  # while the prompt is read

    @property
    def count(self) -> int:
        return self.sampling.samples if self.sampling else 1

    @property
    def length(self) -> int:
        return len(self.prompt.ids)

    def begin(self) -> Batch:
        return Batch(self.served.model, self.served.tokenizer)

    def read_on(self, batch: Batch) -> list[Row] | None:
        if self.reader is None:
            prompt = self.prompt
            self.reader = Decoder(self.served.model, prompt.ids, None, prompt.allowed, self.heed, waits=True)
        if self.reader.read_on():
            return None
        reader, self.reader = self.reader, None
        return batch.join(reader, self.prompt, self.sampling) if self.sampling else []


@dataclass(eq=False)
class Translating(GenerationJob):
    """One source whose best targets are searched for: it hears them when all are found."""

    condition: dict[str, Any]  # of this source alone
    beam: Beam

    @property
    def count(self) -> int:
        return self.beam.width

    @property
    def length(self) -> int:
        return int(self.condition["lengths"].sum())

    def begin(self) -> Searches:
        return Searches(self.served.model, self.served.tokenizer.eos)

    def read_on(self, batch: Searches) -> list[Search]:
        return batch.add(self.condition, [self.beam])
