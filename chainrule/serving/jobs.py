"""Generation jobs: a prompt to continue (sampling), or a source to write a target for (beam search).

The worker treats both alike: it prefills a job chunk by chunk, then adds its rows to the decoding batch of its model.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from chainrule.errors import UserError
from chainrule.generation import Sampling, Token
from chainrule.generation.batch import Row, SampleBatch
from chainrule.generation.beam import Beam, BeamSearch, Hypothesis
from chainrule.generation.decoder import Decoder, LogitsCallback
from chainrule.generation.prompt import Prompt
from chainrule.generation.search import BeamSearchBatch
from chainrule.models.contract import Steps
from chainrule.serving.model_provider import ServedModel


class DecodingRow(Protocol):
    """A sample or a beam search in progress."""

    @property
    def width(self) -> int:
        """How many of the batch's places it occupies: 1, or the width of the beam."""
        ...

    @property
    def is_over(self) -> bool: ...

    @property
    def error(self) -> UserError | None: ...


RowT = TypeVar("RowT", bound=DecodingRow)
ResultT = TypeVar("ResultT")


class DecodingBatch(Protocol[RowT, ResultT]):
    """Rows of one model that decode together: a `SampleBatch` or a `BeamSearchBatch`."""

    @property
    def model(self) -> Steps: ...

    @property
    def rows(self) -> list[RowT]: ...

    @property
    def size(self) -> int:
        """How many places its rows occupy."""
        ...

    def emit(self) -> list[tuple[RowT, ResultT]]:
        """The results of this turn; rows that are over are removed."""
        ...

    def advance(self) -> None:
        """One step of the model for all rows."""
        ...

    def remove(self, row: RowT, /) -> None: ...


@dataclass(eq=False)
class GenerationJob(ABC, Generic[RowT, ResultT]):
    """Updates are put into `updates`, a queue that the jobs of one request may share."""

    served: ServedModel
    updates: "asyncio.Queue[JobUpdate]" = field(default_factory=asyncio.Queue, kw_only=True)
    rows: list[RowT] = field(default_factory=list, kw_only=True)
    is_prefilling: bool = field(default=False, kw_only=True)  # whether a chunk has been read
    is_cancelled: bool = field(default=False, kw_only=True)  # set when the client has gone

    @property
    @abstractmethod
    def count(self) -> int:
        """How many places its rows will occupy."""

    @property
    @abstractmethod
    def length(self) -> int:
        """How many tokens there are to prefill."""

    @abstractmethod
    def new_batch(self) -> DecodingBatch[RowT, ResultT]:
        """An empty batch for jobs of this kind."""

    @abstractmethod
    def prefill(self, batch: Any) -> list[RowT] | None:
        """Read the next chunk; after the last one, the rows that were added to `batch`, which is a `new_batch()`."""


AnyJob = GenerationJob[Any, Any]  # the scheduler mixes jobs of both kinds
AnyBatch = DecodingBatch[Any, Any]
JobUpdate = tuple[AnyJob, list[Any] | Exception | None]  # new results; or an error; or None at the end


@dataclass(eq=False)
class SamplingJob(GenerationJob[Row, Token]):
    """Continues one prompt; its results are tokens."""

    prompt: Prompt
    sampling: Sampling | None  # None: the prompt is only read
    on_logits: LogitsCallback | None = None
    decoder: Decoder | None = None  # during prefill

    @property
    def count(self) -> int:
        return self.sampling.samples if self.sampling else 1

    @property
    def length(self) -> int:
        return len(self.prompt.ids)

    def new_batch(self) -> SampleBatch:
        return SampleBatch(self.served.model, self.served.tokenizer)

    def prefill(self, batch: SampleBatch) -> list[Row] | None:
        if self.decoder is None:
            prompt = self.prompt
            self.decoder = Decoder(self.served.model, prompt.ids, None, prompt.allowed, self.on_logits, is_chunked=True)
        if self.decoder.prefill_next():
            return None
        decoder, self.decoder = self.decoder, None
        return batch.add_prefilled(decoder, self.prompt, self.sampling) if self.sampling else []


@dataclass(eq=False)
class BeamSearchJob(GenerationJob[BeamSearch, Hypothesis]):
    """Writes the best targets for one source; its results are these, once all are found."""

    condition: Mapping[str, np.ndarray]  # of this source alone
    beam: Beam

    @property
    def count(self) -> int:
        return self.beam.width

    @property
    def length(self) -> int:
        return int(self.condition["lengths"].sum())

    def new_batch(self) -> BeamSearchBatch:
        return BeamSearchBatch(self.served.model, self.served.tokenizer.eos)

    def prefill(self, batch: BeamSearchBatch) -> list[BeamSearch]:
        return batch.add(self.condition, [self.beam])
