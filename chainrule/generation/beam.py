"""Beam search: the most likely texts, found by keeping the `width` best beginnings at every length.

A text of log-probability L and n tokens, eos included, scores L / n**length_penalty. A beginning that ends
takes one of the places of its step, so that a beam of width 1 is greedy decoding.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chainrule.errors import UserError
from chainrule.generation.decoder import NOT_FINITE, Decoder
from chainrule.generation.filters import largest
from chainrule.generation.prompt import Continuation, Tokenizer, read_prompt
from chainrule.generation.sampling import Generation
from chainrule.generation.settings import Beam as Beam
from chainrule.models.contract import Steps, log_softmax

NO_CONTINUATION = "this model gives every continuation probability zero; use a smoothed model or another prompt"


@dataclass(frozen=True)
class Found:
    """A finished text: its ids, eos included where it ended by itself, and what it is ranked by."""

    ids: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    finish_reason: str
    score: float

    @property
    def words(self) -> tuple[int, ...]:
        """Its ids without the eos."""
        return self.ids[:-1] if self.finish_reason == "eos" else self.ids


@dataclass(frozen=True)
class Step:
    """What a beam looked at in one step: which beginnings were made longer, by what, and with what probability."""

    parents: list[int]  # of each, the number of its beginning among those of the step before
    ids: list[int]
    totals: list[float]
    is_ended: list[bool]


@dataclass(eq=False)
class Search:
    """One text that is searched for: its beginnings, each a row of the batch, and the best that it has found."""

    beam: Beam
    totals: np.ndarray = field(default_factory=lambda: np.zeros(1))
    ids: list[list[int]] = field(default_factory=lambda: [[]])
    found: list[list[float]] = field(default_factory=lambda: [[]])  # log-probabilities of the ids
    kept: list[Found] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    error: UserError | None = None  # why it ended before its time

    @property
    def width(self) -> int:
        """How many rows it may take."""
        return self.beam.width

    @property
    def is_over(self) -> bool:
        return not len(self.totals)

    def advance(self, ids: np.ndarray, found: np.ndarray, eos: int) -> np.ndarray:
        """Of the likeliest next tokens of every beginning, (rows, width) each, the best; which rows go on."""
        if np.isnan(found[:, 0]).any():
            self.error = UserError(NOT_FINITE)
            return self._go_on_with(np.zeros(0, np.int64))
        totals = self.totals[:, None] + found
        places = np.argsort(-totals, axis=None, kind="stable")[: self.beam.width]
        places = places[totals.ravel()[places] > -np.inf]
        rows, columns = np.divmod(places, ids.shape[1])
        ended = ids[rows, columns] == eos
        is_last = len(self.ids[0]) + 1 == self.beam.max_tokens
        self.ids = [[*self.ids[row], int(ids[row, column])] for row, column in zip(rows, columns, strict=True)]
        self.found = [[*self.found[row], float(found[row, column])] for row, column in zip(rows, columns, strict=True)]
        self.totals = totals[rows, columns]
        self.steps.append(Step(rows.tolist(), ids[rows, columns].tolist(), self.totals.tolist(), ended.tolist()))
        for place in np.flatnonzero(ended | is_last):
            self._finish(self.ids[place], self.found[place], "eos" if ended[place] else "length")
        if not len(places) and not self.kept:
            self.error = UserError(NO_CONTINUATION)
        going_on = self._go_on_with(np.flatnonzero(~ended & (not is_last)))
        if not self._may_find_better():
            going_on = self._go_on_with(going_on[:0])
        return rows[going_on]

    def _go_on_with(self, places: np.ndarray) -> np.ndarray:
        """These places, once all others are forgotten."""
        self.totals = self.totals[places]
        self.ids, self.found = [self.ids[place] for place in places], [self.found[place] for place in places]
        return places

    def _may_find_better(self) -> bool:
        """Whether a beginning may still end better than the worst text kept."""
        if not len(self.totals) or len(self.kept) < self.beam.samples:
            return bool(len(self.totals))
        return self.beam.bound(float(self.totals.max()), len(self.ids[0])) > self.kept[-1].score

    def _finish(self, ids: list[int], found: list[float], reason: str) -> None:
        score = self.beam.score(sum(found), len(ids))
        done = Found(tuple(ids), tuple(found), reason, score)
        self.kept = sorted([*self.kept, done], key=lambda each: -each.score)[: self.beam.samples]


def beam_search(model: Steps, tokenizer: Tokenizer, prompt: str, beam: Beam, condition: Any = None) -> list[Generation]:
    """The best texts found, best first."""
    read = read_prompt(model, tokenizer, prompt, beam.truncate)
    decoder = Decoder(model, read.ids, condition, read.allowed)
    search = Search(beam)
    while not search.is_over:
        going_on = search.advance(*likeliest(decoder.logits, beam.width), tokenizer.eos)
        if len(going_on):
            decoder.select(going_on)
            decoder.append(np.array([ids[-1] for ids in search.ids], np.int64))
    if search.error is not None:
        raise search.error
    return [_to_generation(found, read.continuation(tokenizer)) for found in search.kept]


def _to_generation(found: Found, stream: Continuation) -> Generation:
    text = "".join(map(stream.feed, found.words)) + stream.flush()
    return Generation(text, found.ids, found.log_probabilities, found.finish_reason, score=found.score)


def likeliest(logits: Any, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The ids of the `width` likeliest next tokens of every row, likeliest first, and their log-probabilities.

    Where these are not finite numbers, the first of them is NaN.
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
