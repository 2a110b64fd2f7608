"""A text scored by every part of a mix, so that many weights can be tried without scoring it again."""

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
class ScoredBatch:
    """Some documents, their stream eos d1 eos ... eos, and the scores of each token after the first."""

    documents: Documents
    stream: np.ndarray
    log_p: np.ndarray  # (parts, tokens)
    signal: np.ndarray  # (tokens,) what decides on the bucket


@dataclass(frozen=True)
class ScoredText:
    """All batches of a text."""

    tokenizer: Tokenizer
    batches: list[ScoredBatch]

    @property
    def log_p(self) -> np.ndarray:
        return np.concatenate([batch.log_p for batch in self.batches], 1)

    @property
    def signal(self) -> np.ndarray:
        return np.concatenate([batch.signal for batch in self.batches])

    def scores(self, log_p: Callable[[ScoredBatch], np.ndarray]) -> Scores:
        """The scores of the documents, with the log-probabilities of tokens that `log_p` gives for each batch."""
        return join([add_up(log_p(batch), batch.stream, self.tokenizer, batch.documents) for batch in self.batches])

    def scores_of_part(self, part: int) -> Scores:
        return self.scores(lambda batch: batch.log_p[part])

    def scores_of_mix(self, model: Model) -> Scores:
        return self.scores(lambda batch: model.combine(batch.log_p, batch.signal))

    def with_part(self, part: LanguageModel) -> "ScoredText":
        """The same text, scored by one more part as well."""
        batches = [
            ScoredBatch(each.documents, each.stream, np.vstack([each.log_p, part.score(each.stream)]), each.signal)
            for each in self.batches
        ]
        return ScoredText(self.tokenizer, batches)


def read_text(model: Model, tokenizer: Tokenizer, batches: Iterable[Documents]) -> ScoredText:
    """Score the documents with every part of a mix."""
    read = [(documents, stream_of(tokenizer, documents)) for documents in batches if len(documents)]
    total = len(model.parts) * sum(len(stream) - 1 for _, stream in read)
    with progress("scoring", total, "tokens") as advance:
        return ScoredText(
            tokenizer, [ScoredBatch(documents, stream, *model.read(stream, advance)) for documents, stream in read]
        )
