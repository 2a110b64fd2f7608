"""Beam search: the most likely texts, found by keeping the `width` best partial hypotheses at every length.

A hypothesis of log-probability L and n tokens, eos included, scores L / n**length_penalty. As in transformers, a
hypothesis that ends leaves the beam: it is set aside if it is among the `width` best of its step, and the next best one
that goes on takes its place. The search is over when no partial hypothesis can end with a better score than those set
aside (transformers' `early_stopping="never"`). A beam of width 1 is greedy decoding and ends with its first hypothesis.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from chainrule.errors import UserError
from chainrule.generation.decoder import NOT_FINITE, Decoder
from chainrule.generation.filters import largest
from chainrule.generation.prompt import Prompt, Tokenizer, read_prompt
from chainrule.generation.sampling import Generation
from chainrule.generation.settings import Beam as Beam
from chainrule.generation.stop import StopStrings
from chainrule.models.contract import Array, Steps, log_softmax

NO_CONTINUATION = "this model gives every continuation probability zero; use a smoothed model or another prompt"
ENDS = ("eos", "stop")  # finish reasons of a hypothesis that ended before it was cut


@dataclass(frozen=True)
class Hypothesis:
    """A finished hypothesis: its ids, with the eos or stop string that ended it, and the score that it is ranked by."""

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
    """The extensions that a beam kept in one step, best first: those that go on, and those that ended."""

    parents: list[int]  # for each, the index of the hypothesis it extends among those of the step before
    ids: list[int]
    totals: list[float]  # log-probabilities
    is_ended: list[bool]


@dataclass(eq=False)
class BeamSearch:
    """One beam search in progress: partial hypotheses, each a row of the batch, and the best finished ones."""

    beam: Beam
    has_stopped: Callable[[list[int]], bool] | None = None  # whether the last of these ids completes a stop string
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
        """Extend every hypothesis by its most likely next tokens, (rows, beam.considered) each, and keep the best.

        Returns, for each hypothesis that goes on, the row that it extends.
        """
        if np.isnan(log_probabilities[:, 0]).any():
            self.error = UserError(NOT_FINITE)
            return self._continue_with(np.zeros(0, np.int64))
        rows, columns = self._extend(ids, log_probabilities)
        reasons = [self._finish_reason(each, eos) for each in self.ids]
        is_going_on = np.array([reason is None for reason in reasons], bool)
        is_going_on[np.flatnonzero(is_going_on)[self.width :]] = False
        is_finished = np.array([reason is not None for reason in reasons[: self.width]], bool)
        for place in np.flatnonzero(is_finished):
            self._finish(self.ids[place], self.log_probabilities[place], reasons[place] or "")
        if not len(rows) and not self.finished:
            self.error = UserError(NO_CONTINUATION)
        kept = np.union1d(np.flatnonzero(is_finished), np.flatnonzero(is_going_on))
        self.steps.append(
            BeamStep(
                rows[kept].tolist(),
                ids[rows, columns][kept].tolist(),
                self.totals[kept].tolist(),
                [reasons[place] in ENDS for place in kept],
            )
        )
        going_on = self._continue_with(np.flatnonzero(is_going_on))
        if not self._may_find_better():
            going_on = self._continue_with(going_on[:0])
        return rows[going_on]

    def _extend(self, ids: np.ndarray, log_probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Replace the hypotheses by their best extensions; returns the row and the column that each one comes from."""
        totals = self.totals[:, None] + log_probabilities
        places = np.argsort(-totals, axis=None, kind="stable")[: self.beam.considered]
        places = places[totals.ravel()[places] > -np.inf]
        rows, columns = np.divmod(places, ids.shape[1])
        self.ids = [[*self.ids[row], int(ids[row, column])] for row, column in zip(rows, columns, strict=True)]
        self.log_probabilities = [
            [*self.log_probabilities[row], float(log_probabilities[row, column])]
            for row, column in zip(rows, columns, strict=True)
        ]
        self.totals = totals[rows, columns]
        return rows, columns

    def _finish_reason(self, ids: list[int], eos: int) -> str | None:
        """Why a hypothesis ends with its last token; None: it goes on."""
        if ids[-1] == eos:
            return "eos"
        if self.has_stopped is not None and self.has_stopped(ids):
            return "stop"
        return "length" if len(ids) == self.beam.max_tokens else None

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
    search = BeamSearch(beam, _stop_test(tokenizer, read, beam.stop) if beam.stop else None)
    while not search.is_over:
        going_on = search.advance(*top_log_probabilities(decoder.logits, beam.considered), tokenizer.eos)
        if len(going_on):
            decoder.select(going_on)
            decoder.append(np.array([ids[-1] for ids in search.ids], np.int64))
    if search.error is not None:
        raise search.error
    return [_to_generation(each, tokenizer, read, beam.stop) for each in search.finished]


def _stop_test(tokenizer: Tokenizer, prompt: Prompt, stop: tuple[str, ...]) -> Callable[[list[int]], bool]:
    def has_stopped(ids: list[int]) -> bool:
        text = "".join(map(prompt.continuation(tokenizer).feed, ids))
        return any(each in text for each in stop)

    return has_stopped


def _to_generation(best: Hypothesis, tokenizer: Tokenizer, prompt: Prompt, stop: tuple[str, ...]) -> Generation:
    decoder, strings = prompt.continuation(tokenizer), StopStrings(stop)
    text = strings.feed("".join(map(decoder.feed, best.words)) + decoder.flush())
    text += "" if strings.found else strings.flush()
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
