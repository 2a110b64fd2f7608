"""A batch of texts that grow one token at a time, and the model state that has read them."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import UserError
from chainrule.models._numpy import step, to_numpy
from chainrule.models.contract import Rewinds, State, Steps, select_rows

AT_ONCE = 512  # tokens of a prompt read in one step
HEEDED_AT_ONCE = 64  # where the logits of all of them are wanted
Heed = Callable[[np.ndarray], None]  # gets logits (time, vocabulary) of a prompt, piece by piece
NOT_FINITE = "the model's logits are not finite numbers; its training probably diverged"


def half_of(context_length: int) -> int:
    """What a full context begins anew with: half makes room for as many new tokens at the price of one long step."""
    return max(1, context_length // 2)


class Decoder:
    """`logits` (rows, vocabulary) are for the token that comes after `history` (rows, length).

    Of the first token, only the `allowed` ones are possible, unless the model excludes them all. `heed` is told what
    the model expected at every position of the prompt. Whoever wants to do other things while a long prompt is read
    `waits`, and calls `read_on` until it is.
    """

    def __init__(
        self,
        model: Steps,
        ids: np.ndarray,
        condition: Any = None,
        allowed: np.ndarray | None = None,
        heed: Heed | None = None,
        waits: bool = False,
    ) -> None:
        self.model = model
        self.condition = condition
        self.context_length: int | None = getattr(model, "context_length", None)
        self._tokens = ids[None].copy()  # doubles when it is full, so only the first `length` columns count
        self.length = len(ids)
        self.state: State = None
        self._tried: State = None
        self.logits = np.empty(0)
        self._allowed, self._heed = allowed, heed
        self._unread = self._begin(len(ids), heed)
        while not waits and self.read_on():
            pass

    def read_on(self) -> bool:
        """Read the next piece of the prompt; whether there is more of it."""
        self._read(self._unread.pop(0), self._heed)
        if self._unread:
            return True
        if self._allowed is not None and (self.logits[:, self._allowed] > -np.inf).any():
            self.logits = np.where(self._allowed, self.logits, -np.inf)
        return False

    @property
    def history(self) -> np.ndarray:
        return self._tokens[:, : self.length]

    def select(self, rows: np.ndarray) -> None:
        """Go on with these rows; they may repeat or be left out."""
        self.state = select_rows(self.state, rows)
        self.condition = select_rows(self.condition, rows)
        self.logits = self.logits[rows]
        self._tokens = self._tokens[rows]

    def append(self, ids: np.ndarray) -> None:
        """Read one more token in every row."""
        if self.length == self._tokens.shape[1]:
            self._tokens = np.concatenate([self._tokens, np.zeros_like(self._tokens)], axis=1)
        self._tokens[:, self.length] = ids
        self.length += 1
        if self.room:
            self._read(ids[:, None])
        else:
            assert self.context_length is not None
            for piece in self._begin(half_of(self.context_length)):
                self._read(piece)

    @property
    def room(self) -> int:
        """How many more tokens the context holds before it has to begin anew."""
        return sys.maxsize if self.context_length is None else self.context_length - self._read_count

    def try_out(self, ids: np.ndarray) -> np.ndarray:
        """Logits (tokens, vocabulary) after each of some more tokens of the one row. None counts as read yet."""
        assert 0 < len(ids) <= self.room
        logits, self._tried = step(self.model, ids[None], self.state)
        return to_numpy(logits[0])

    def keep(self, ids: np.ndarray, count: int) -> None:
        """Count the first so many of the tokens that were tried out as read."""
        if count == len(ids):
            self.state = self._tried
        elif isinstance(self.model, Rewinds):
            self.state = self.model.rewind(self._tried, self.state, ids[None, :count])
        else:
            _, self.state = step(self.model, ids[None, :count], self.state)
        self._read_count += count

    def _begin(self, count: int, heed: Heed | None = None) -> list[np.ndarray]:
        """A fresh state, and the pieces of the last `count` tokens that it has to read."""
        self.state = self.model.start(len(self._tokens), self.condition)
        self._read_count = 0
        memory = getattr(self.model, "memory", None)
        last = self.history[:, -count:]
        last = last if memory is None or heed else last[:, -memory:]
        at_once = HEEDED_AT_ONCE if heed else AT_ONCE  # a step has logits for all it reads, and a prompt may be long
        return [last[:, start : start + at_once] for start in range(0, last.shape[1], at_once)]

    def _read(self, ids: np.ndarray, heed: Heed | None = None) -> None:
        logits, self.state = step(self.model, ids, self.state, to_last=heed is None)
        self._read_count += ids.shape[1]
        if heed:
            heed(to_numpy(logits[0]))
        self.logits = to_numpy(logits[:, -1])
        # The largest of a row is NaN if any is.
        if not (self.logits.max(-1) < np.inf).all():
            raise UserError(NOT_FINITE)
