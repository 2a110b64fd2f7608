"""Beam search for many sources at once: every sentence has its own beam, and all beams are rows of one batch.

The same search as in `beam`, sentence by sentence: what one finds does not depend on the others. A sentence that has
found its texts leaves the batch, and others may join it at any time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chainrule.errors import UserError
from chainrule.generation.beam import Beam
from chainrule.generation.decoder import NOT_FINITE
from chainrule.generation.filters import largest
from chainrule.models._numpy import start, step
from chainrule.models.base import State, Steps, add_rows, select_rows


@dataclass(frozen=True)
class Found:
    """A finished target: its ids, eos included where it ended by itself, and what it is ranked by."""

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
    """One sentence: its beginnings, each a row of the batch, and the best texts that it has found."""

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


class Searches:
    """The sentences of one model that are being searched for. By turns, `advance` makes every beginning a token longer
    and `roll` tells what was found; in between, sentences may join and leave, as rows of a `Batch` do.
    """

    def __init__(self, model: Steps, eos: int) -> None:
        self.model, self.eos = model, eos
        self.rows: list[Search] = []
        self._state: State = None  # a row for every beginning of every sentence, in their order

    @property
    def size(self) -> int:
        """How many rows its sentences may take."""
        return sum(each.width for each in self.rows)

    def add(self, condition: Any, beams: Sequence[Beam]) -> list[Search]:
        """The sources of a condition, each with its beam."""
        new = [Search(beam) for beam in beams]
        state = start(self.model, len(beams), condition)
        self._state = state if self._state is None else add_rows(self._state, state)
        self.rows += new
        return new

    def remove(self, sentence: Search) -> None:
        kept = np.concatenate([np.full(len(each.totals), each is not sentence) for each in self.rows])
        self.rows.remove(sentence)
        self._keep(np.flatnonzero(kept), len(kept))

    def advance(self) -> None:
        """One token more for every beginning."""
        if not self.rows:
            return
        last = np.array([ids[-1] if ids else self.eos for each in self.rows for ids in each.ids], np.int64)
        logits, self._state = step(self.model, last[:, None], self._state)
        ids, found = _likeliest(logits[:, -1], max(each.width for each in self.rows))
        kept, first = [], 0
        for each in self.rows:
            own = (slice(first, first + len(each.totals)), slice(each.width))
            kept.append(first + each.advance(ids[own], found[own], self.eos))
            first = own[0].stop
        self._keep(np.concatenate(kept), len(last))

    def roll(self) -> list[tuple[Search, Found]]:
        """All that was found for the sentences that are over; they leave."""
        over = [each for each in self.rows if each.is_over]
        self.rows = [each for each in self.rows if not each.is_over]
        return [(each, found) for each in over for found in each.kept]

    def _keep(self, rows: np.ndarray, count: int) -> None:
        """Go on with these of so many rows of the state, which may repeat."""
        if not len(rows):
            self._state = None
        elif not np.array_equal(rows, np.arange(count)):
            self._state = select_rows(self._state, rows)


def search(
    model: Steps, condition: Any, eos: int, beams: Sequence[Beam], tree: list[list[Step]] | None = None
) -> list[list[Found]]:
    """The best targets of every source of the condition, best first; `tree` gets what each beam looked at."""
    searches = Searches(model, eos)
    sentences = searches.add(condition, beams)
    while searches.rows:
        searches.advance()
        searches.roll()
    for each in sentences:
        if each.error is not None:
            raise each.error
    if tree is not None:
        tree.extend(each.steps for each in sentences)
    return [each.kept for each in sentences]


def _likeliest(logits: Any, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The ids of the `width` likeliest next tokens of every row, likeliest first, and their log-probabilities.

    Where these are not finite numbers, the first of them is NaN.
    """
    width = min(width, logits.shape[-1])
    if isinstance(logits, np.ndarray):
        ids = largest(logits, width)
        values = np.take_along_axis(logits, ids, -1)
        order = np.argsort(-values, axis=-1, kind="stable")
        ids, values = np.take_along_axis(ids, order, -1), np.take_along_axis(values, order, -1)
        top = logits.max(-1, keepdims=True)
        return ids, values - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    values, ids = logits.topk(width)
    return ids.numpy(), (values - logits.logsumexp(-1, keepdim=True)).double().numpy()
