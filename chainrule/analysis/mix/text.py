"""A text as every part of a mix predicts it: scored once, then weighed as often as wanted."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from chainrule.data.documents import Documents
from chainrule.evaluation.score import Scores, add_up, join, stream_of
from chainrule.models.contract import LanguageModel
from chainrule.models.mix import Model
from chainrule.progress import progress
from chainrule.text.base import Tokenizer


@dataclass(frozen=True)
class Batch:
    """Some documents, their stream eos d1 eos ... eos, and of each token after the first:"""

    documents: Documents
    stream: np.ndarray
    log_p: np.ndarray  # (parts, tokens)
    signal: np.ndarray  # (tokens,) what buckets are cut from


@dataclass(frozen=True)
class Text:
    tokenizer: Tokenizer
    batches: list[Batch]

    @property
    def log_p(self) -> np.ndarray:
        return np.concatenate([batch.log_p for batch in self.batches], 1)

    @property
    def signal(self) -> np.ndarray:
        return np.concatenate([batch.signal for batch in self.batches])

    def scores(self, log_p: Callable[[Batch], np.ndarray]) -> Scores:
        """The scores of the documents, from what `log_p` makes of each batch."""
        return join([add_up(log_p(batch), batch.stream, self.tokenizer, batch.documents) for batch in self.batches])

    def scores_of_part(self, part: int) -> Scores:
        return self.scores(lambda batch: batch.log_p[part])

    def scores_of_mix(self, model: Model) -> Scores:
        return self.scores(lambda batch: model.combine(batch.log_p, batch.signal))

    def with_part(self, part: LanguageModel) -> "Text":
        """The same text with the predictions of one more part."""
        batches = [
            Batch(each.documents, each.stream, np.vstack([each.log_p, part.score(each.stream)]), each.signal)
            for each in self.batches
        ]
        return Text(self.tokenizer, batches)


def read_text(model: Model, tokenizer: Tokenizer, batches: Iterable[Documents]) -> Text:
    """What every part of a mix predicts of the documents."""
    read = [(documents, stream_of(tokenizer, documents)) for documents in batches if len(documents)]
    total = len(model.parts) * sum(len(stream) - 1 for _, stream in read)
    with progress("scoring", total, "tokens") as advance:
        return Text(tokenizer, [Batch(documents, stream, *model.read(stream, advance)) for documents, stream in read])
