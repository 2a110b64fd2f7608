"""Beam search: the most likely texts, found by keeping the `width` best partial hypotheses at every length.

A hypothesis of log-probability L and n tokens, eos included, scores L / n**length_penalty. A hypothesis that ends
takes one of the `width` places of its step, so a beam of width 1 is greedy decoding.
"""

from dataclasses import dataclass, field

import numpy as np

from chainrule.errors import UserError
from chainrule.generation.decoder import NOT_FINITE, Decoder
from chainrule.generation.filters import largest
from chainrule.generation.prompt import Continuation, Tokenizer, read_prompt
from chainrule.generation.sampling import Generation
from chainrule.generation.settings import Beam as Beam
from chainrule.models.contract import Array, Steps, log_softmax

NO_CONTINUATION = "this model gives every continuation probability zero; use a smoothed model or another prompt"


@dataclass(frozen=True)
class Hypothesis:
    """A finished hypothesis: its ids, including an eos that ended it, and the score that it is ranked by."""

    ids: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    finish_reason: str
    score: float

    @property
    def words(self) -> tuple[int, ...]:
        """The ids without the eos."""
        return self.ids[:-1] if self.finish_reason == "eos" else self.ids


@dataclass(frozen=True)
class BeamStep:
    """The extensions that a beam kept in one step, before those that ended were set aside."""

    parents: list[int]  # for each, the index of the hypothesis it extends among those of the step before
    ids: list[int]
    totals: list[float]  # log-probabilities
    is_ended: list[bool]


@dataclass(eq=False)
class BeamSearch:
    """One beam search in progress: partial hypotheses, each a row of the batch, and the best finished ones."""

    beam: Beam
    totals: np.ndarray = field(default_factory=lambda: np.zeros(1))  # (rows,) log-probabilities
    ids: list[list[int]] = field(default_factory=lambda: [[]])
    log_probabilities: list[list[float]] = field(default_factory=lambda: [[]])  # of the ids
    finished: list[Hypothesis] = field(default_factory=list)
    steps: list[BeamStep] = field(default_factory=list)
    error: UserError | None = None  # set where the search cannot go on

    @property
    def width(self) -> int:
        """The most rows that it occupies."""
        return self.beam.width

    @property
    def is_over(self) -> bool:
        return not len(self.totals)

    def advance(self, ids: np.ndarray, log_probabilities: np.ndarray, eos: int) -> np.ndarray:
        """Extend every hypothesis by its most likely next tokens, (rows, width) each, and keep the `width` best.

        Returns, for each hypothesis that goes on, the row that it extends.
        """
        if np.isnan(log_probabilities[:, 0]).any():
            self.error = UserError(NOT_FINITE)
            return self._continue_with(np.zeros(0, np.int64))
        totals = self.totals[:, None] + log_probabilities
        places = np.argsort(-totals, axis=None, kind="stable")[: self.beam.width]
        places = places[totals.ravel()[places] > -np.inf]
        rows, columns = np.divmod(places, ids.shape[1])
        ended = ids[rows, columns] == eos
        is_last = len(self.ids[0]) + 1 == self.beam.max_tokens
        self.ids = [[*self.ids[row], int(ids[row, column])] for row, column in zip(rows, columns, strict=True)]
        self.log_probabilities = [
            [*self.log_probabilities[row], float(log_probabilities[row, column])]
            for row, column in zip(rows, columns, strict=True)
        ]
        self.totals = totals[rows, columns]
        self.steps.append(BeamStep(rows.tolist(), ids[rows, columns].tolist(), self.totals.tolist(), ended.tolist()))
        for place in np.flatnonzero(ended | is_last):
            self._finish(self.ids[place], self.log_probabilities[place], "eos" if ended[place] else "length")
        if not len(places) and not self.finished:
            self.error = UserError(NO_CONTINUATION)
        going_on = self._continue_with(np.flatnonzero(~ended & (not is_last)))
        if not self._may_find_better():
            going_on = self._continue_with(going_on[:0])
        return rows[going_on]

    def _continue_with(self, places: np.ndarray) -> np.ndarray:
        """Drop all hypotheses but these; returns `places`."""
        self.totals = self.totals[places]
        self.ids = [self.ids[place] for place in places]
        self.log_probabilities = [self.log_probabilities[place] for place in places]
        return places

    def _may_find_better(self) -> bool:
        """Whether a partial hypothesis may still end with a better score than the worst of the finished ones."""
        if not len(self.totals) or len(self.finished) < self.beam.samples:
            return bool(len(self.totals))
        return self.beam.bound(float(self.totals.max()), len(self.ids[0])) > self.finished[-1].score

    def _finish(self, ids: list[int], log_probabilities: list[float], reason: str) -> None:
        score = self.beam.score(sum(log_probabilities), len(ids))
        hypothesis = Hypothesis(tuple(ids), tuple(log_probabilities), reason, score)
        self.finished = sorted([*self.finished, hypothesis], key=lambda each: -each.score)[: self.beam.samples]


def beam_search(
    model: Steps, tokenizer: Tokenizer, prompt: str, beam: Beam, condition: object = None
) -> list[Generation]:
    """The `beam.samples` best continuations of a prompt, best first."""
    read = read_prompt(model, tokenizer, prompt, beam.truncate)
    decoder = Decoder(model, read.ids, condition, read.allowed)
    search = BeamSearch(beam)
    while not search.is_over:
        going_on = search.advance(*top_log_probabilities(decoder.logits, beam.width), tokenizer.eos)
        if len(going_on):
            decoder.select(going_on)
            decoder.append(np.array([ids[-1] for ids in search.ids], np.int64))
    if search.error is not None:
        raise search.error
    return [_to_generation(each, read.continuation(tokenizer)) for each in search.finished]


def _to_generation(best: Hypothesis, stream: Continuation) -> Generation:
    text = "".join(map(stream.feed, best.words)) + stream.flush()
    return Generation(text, best.ids, best.log_probabilities, best.finish_reason, score=best.score)


def top_log_probabilities(logits: Array, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The ids of the `width` most likely next tokens of every row, most likely first, and their log-probabilities.

    `logits` (rows, vocabulary) are NumPy's or torch's. In a row of logits that are not finite, the first
    log-probability is NaN.
    """
    width = min(width, logits.shape[-1])
    if isinstance(logits, np.ndarray):
        is_finite = logits.max(-1, keepdims=True) < np.inf
        values = log_softmax(np.where(is_finite, logits, 0.0))
        ids = largest(values, width)
        order = np.argsort(-np.take_along_axis(values, ids, -1), axis=-1, kind="stable")
        ids = np.take_along_axis(ids, order, -1)
        return ids, np.where(is_finite, np.take_along_axis(values, ids, -1), np.nan)
    values, ids = logits.topk(width)
    return ids.numpy(), (values - logits.logsumexp(-1, keepdim=True)).double().numpy()
