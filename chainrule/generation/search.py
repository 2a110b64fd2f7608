"""Batched beam search over many sources: every source has a beam of its own, and all beams are rows of one batch.

What is found for a source does not depend on the others. A source whose search is over leaves the batch, and others may
join it at any time.
"""

from collections.abc import Sequence

import numpy as np

from chainrule.generation.beam import Beam, BeamSearch, BeamStep, Hypothesis, top_log_probabilities
from chainrule.models._numpy import start, step
from chainrule.models.contract import State, Steps
from chainrule.nest import add_rows, select_rows


class BeamSearchBatch:
    """The beam searches of one model that run together. `advance` extends every hypothesis by a token, `emit` returns
    the finished ones; between the two calls searches may be added and removed, as rows of a `SampleBatch` may.
    """

    def __init__(self, model: Steps, eos: int) -> None:
        self.model, self.eos = model, eos
        self.rows: list[BeamSearch] = []
        self._state: State = None  # a row for every partial hypothesis of every search, in their order

    @property
    def size(self) -> int:
        """The most rows that its searches occupy."""
        return sum(each.width for each in self.rows)

    def add(self, condition: object, beams: Sequence[Beam]) -> list[BeamSearch]:
        """Start a search for every source of a batched condition."""
        new = [BeamSearch(beam) for beam in beams]
        state = start(self.model, len(beams), condition)
        self._state = state if self._state is None else add_rows(self._state, state)
        self.rows += new
        return new

    def remove(self, search: BeamSearch) -> None:
        kept = np.concatenate([np.full(len(each.totals), each is not search) for each in self.rows])
        self.rows.remove(search)
        self._keep(np.flatnonzero(kept), len(kept))

    def advance(self) -> None:
        """Extend every partial hypothesis of every search by one token."""
        if not self.rows:
            return
        last = np.array([ids[-1] if ids else self.eos for each in self.rows for ids in each.ids], np.int64)
        logits, self._state = step(self.model, last[:, None], self._state)
        ids, log_probabilities = top_log_probabilities(logits[:, -1], max(each.beam.considered for each in self.rows))
        kept, first = [], 0
        for each in self.rows:
            own = (slice(first, first + len(each.totals)), slice(each.beam.considered))
            kept.append(first + each.advance(ids[own], log_probabilities[own], self.eos))
            first = own[0].stop
        self._keep(np.concatenate(kept), len(last))

    def emit(self) -> list[tuple[BeamSearch, Hypothesis]]:
        """The finished hypotheses of all searches that are over, which are removed."""
        over = [each for each in self.rows if each.is_over]
        self.rows = [each for each in self.rows if not each.is_over]
        return [(each, hypothesis) for each in over for hypothesis in each.finished]

    def _keep(self, rows: np.ndarray, count: int) -> None:
        """Continue with these of the state's `count` rows, which may repeat."""
        if not len(rows):
            self._state = None
        elif not np.array_equal(rows, np.arange(count)):
            self._state = select_rows(self._state, rows)


def search(
    model: Steps, condition: object, eos: int, beams: Sequence[Beam], tree: list[list[BeamStep]] | None = None
) -> list[list[Hypothesis]]:
    """The best targets of every source of a batched condition, best first; `tree` receives the steps of each beam."""
    batch = BeamSearchBatch(model, eos)
    searches = batch.add(condition, beams)
    while batch.rows:
        batch.advance()
        batch.emit()
    for each in searches:
        if each.error is not None:
            raise each.error
    if tree is not None:
        tree.extend(each.steps for each in searches)
    return [each.finished for each in searches]
