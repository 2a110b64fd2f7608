"""Beam search for many sources at once: every sentence has its own beam, and all beams are rows of one batch.

What one finds does not depend on the others. A sentence that has found its texts leaves the batch, and others may join
it at any time.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.generation.beam import Beam, Found, Search, Step, likeliest
from chainrule.models._numpy import start, step
from chainrule.models.contract import State, Steps, add_rows, select_rows


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
        ids, found = likeliest(logits[:, -1], max(each.width for each in self.rows))
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
