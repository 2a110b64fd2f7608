"""Beam search for many sources at once: every sentence has its own beam, and all beams are rows of one batch.

The same search as in `beam`, sentence by sentence: what one finds does not depend on the others. A sentence that has
found its texts leaves the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chainrule.errors import UserError
from chainrule.generation.beam import Beam
from chainrule.generation.decoder import NOT_FINITE
from chainrule.generation.filters import largest
from chainrule.models._numpy import step
from chainrule.models.base import State, Steps, select_rows


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


@dataclass
class _Sentence:
    """One search: its beginnings are rows `first` to `first + len(totals)` of the batch."""

    beam: Beam
    totals: np.ndarray = field(default_factory=lambda: np.zeros(1))
    ids: list[list[int]] = field(default_factory=lambda: [[]])
    found: list[list[float]] = field(default_factory=lambda: [[]])  # log-probabilities of the ids
    kept: list[Found] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def is_going_on(self) -> bool:
        """Whether a beginning may still end better than the worst text kept."""
        if not len(self.totals) or len(self.kept) < self.beam.samples:
            return bool(len(self.totals))
        return self.beam.bound(float(self.totals.max()), len(self.ids[0])) > self.kept[-1].score

    def advance(self, ids: np.ndarray, found: np.ndarray, eos: int) -> np.ndarray:
        """Of the likeliest next tokens of every beginning, (rows, width) each, the best; which rows go on."""
        totals = self.totals[:, None] + found
        places = np.argsort(-totals, axis=None, kind="stable")[: self.beam.width]
        places = places[totals.ravel()[places] > -np.inf]
        rows, columns = np.divmod(places, ids.shape[1])
        ended = ids[rows, columns] == eos
        is_last = len(self.ids[0]) + 1 == self.beam.max_tokens
        new = [[*self.ids[row], int(ids[row, column])] for row, column in zip(rows, columns, strict=True)]
        chances = [[*self.found[row], float(found[row, column])] for row, column in zip(rows, columns, strict=True)]
        for place in np.flatnonzero(ended | is_last):
            self._finish(new[place], chances[place], "eos" if ended[place] else "length")
        going_on = np.flatnonzero(~ended & (not is_last))
        best = totals[rows, columns]
        self.steps.append(Step(rows.tolist(), ids[rows, columns].tolist(), best.tolist(), ended.tolist()))
        self.totals = best[going_on]
        self.ids, self.found = [new[i] for i in going_on], [chances[i] for i in going_on]
        return rows[going_on]

    def _finish(self, ids: list[int], found: list[float], reason: str) -> None:
        score = self.beam.score(sum(found), len(ids))
        done = Found(tuple(ids), tuple(found), reason, score)
        self.kept = sorted([*self.kept, done], key=lambda each: -each.score)[: self.beam.samples]


def search(
    model: Steps, condition: Any, eos: int, beams: Sequence[Beam], tree: list[list[Step]] | None = None
) -> list[list[Found]]:
    """The best targets of every source of the condition, best first; `tree` gets what each beam looked at."""
    sentences = [_Sentence(beam) for beam in beams]
    live = list(sentences)
    state = model.start(len(beams), condition)
    last = np.full(len(beams), eos)
    while live:
        logits, state = step(model, last[:, None], state)
        ids, found = _likeliest(logits[:, -1], max(each.beam.width for each in live))
        rows, first = [], 0
        for sentence in live:
            after = first + len(sentence.totals)
            width = sentence.beam.width
            kept = sentence.advance(ids[first:after, :width], found[first:after, :width], eos)
            rows.append(kept + first if sentence.is_going_on() else kept[:0])
            first = after
        live = [each for each, kept in zip(live, rows, strict=True) if len(kept)]
        state = _follow(state, np.concatenate(rows), len(last))
        last = np.array([ids[-1] for sentence in live for ids in sentence.ids], np.int64)
    if tree is not None:
        tree.extend(sentence.steps for sentence in sentences)
    return [sentence.kept for sentence in sentences]


def _follow(state: State, rows: np.ndarray, count: int) -> State:
    """The state of these rows; where all of them stay as they are, itself."""
    return state if np.array_equal(rows, np.arange(count)) else select_rows(state, rows)


def _likeliest(logits: Any, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The ids of the `width` likeliest next tokens of every row, likeliest first, and their log-probabilities."""
    width = min(width, logits.shape[-1])
    if isinstance(logits, np.ndarray):
        ids = largest(logits, width)
        values = np.take_along_axis(logits, ids, -1)
        order = np.argsort(-values, axis=-1, kind="stable")
        ids, values = np.take_along_axis(ids, order, -1), np.take_along_axis(values, order, -1)
        top = logits.max(-1, keepdims=True)
        return ids, values - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    values, ids = logits.topk(width)
    found = (values - logits.logsumexp(-1, keepdim=True)).double().numpy()
    if not (values[:, 0].abs() < float("inf")).all():
        raise UserError(NOT_FINITE)
    return ids.numpy(), found
