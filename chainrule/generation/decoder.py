"""Prefill and decode: token sequences of one model, the state that has read them, and the logits that follow."""

import sys
from collections.abc import Callable
from copy import copy

import numpy as np

from chainrule.errors import UserError
from chainrule.models._numpy import step, to_numpy
from chainrule.models.contract import Rewinds, State, Steps
from chainrule.nest import select_rows

PREFILL_CHUNK = 512  # tokens of a prompt read in one step
SCORED_PREFILL_CHUNK = 64  # the same where logits of every position are needed
LogitsCallback = Callable[[np.ndarray], None]  # called with the logits (time, vocabulary) of each chunk of a prompt
NOT_FINITE = "the model's logits are not finite numbers; its training probably diverged"


def restart_length(context_length: int) -> int:
    """How many of the latest tokens are read again once a context is full: half of it, which leaves as much room."""
    return max(1, context_length // 2)


class Decoder:
    """`logits` (rows, vocabulary) are for the token that comes after `history` (rows, length).

    The first token is restricted to the `allowed` ones, unless the model gives all of these probability zero.
    `on_logits` is called with the logits of every position of the prompt. The constructor reads the whole prompt; with
    `is_chunked` it reads nothing, and `prefill_next` reads it chunk by chunk, with other work in between.
    """

    def __init__(
        self,
        model: Steps,
        ids: np.ndarray,
        condition: object = None,
        allowed: np.ndarray | None = None,
        on_logits: LogitsCallback | None = None,
        is_chunked: bool = False,
    ) -> None:
        self.model = model
        self.condition = condition
        self.context_length: int | None = getattr(model, "context_length", None)
        self._tokens = ids[None].copy()  # doubles when it is full, so only the first `length` columns count
        self.length = len(ids)
        self.state: State = None
        self._proposed: State = None  # after the tokens of the last `verify`
        self.logits = np.empty(0)
        self._allowed, self._on_logits = allowed, on_logits
        self._unread = self._begin(len(ids), on_logits)
        while not is_chunked and self.prefill_next():
            pass

    def prefill_next(self) -> bool:
        """Read the next chunk of the prompt, if one is left; returns whether there are more."""
        if not self._unread:
            return False
        self._read(self._unread.pop(0), self._on_logits)
        if self._unread:
            return True
        if self._allowed is not None and (self.logits[:, self._allowed] > -np.inf).any():
            self.logits = np.where(self._allowed, self.logits, -np.inf)
        return False

    @property
    def history(self) -> np.ndarray:
        return self._tokens[:, : self.length]

    def select(self, rows: np.ndarray) -> None:
        """Continue with these rows, which may repeat or be left out."""
        self.state = select_rows(self.state, rows)
        self.condition = select_rows(self.condition, rows)
        self.logits = self.logits[rows]
        self._tokens = self._tokens[rows]

    def extend(self, ids: np.ndarray) -> None:
        """Append tokens (time,) to a single row that has room for them; `prefill_next` reads them."""
        assert len(ids) <= self.room and not self._unread
        self._tokens = np.concatenate([self.history, ids[None]], axis=1)
        self.length += len(ids)
        self._unread = self._chunks(ids[None], PREFILL_CHUNK)

    def branch(self) -> "Decoder":
        """Another decoder that goes on from here; nothing is read again, as states never change."""
        other = copy(self)
        other._tokens, other._unread = self._tokens.copy(), list(self._unread)
        return other

    def append(self, ids: np.ndarray) -> None:
        """Append a token to every row and read it; a full context starts again with its latest tokens."""
        if self.length == self._tokens.shape[1]:
            self._tokens = np.concatenate([self._tokens, np.zeros_like(self._tokens)], axis=1)
        self._tokens[:, self.length] = ids
        self.length += 1
        if self.room:
            self._read(ids[:, None])
        else:
            assert self.context_length is not None
            for piece in self._begin(restart_length(self.context_length)):
                self._read(piece)

    @property
    def room(self) -> int:
        """How many more tokens fit into the context before it has to start again."""
        return sys.maxsize if self.context_length is None else self.context_length - self._read_count

    @property
    def unread(self) -> int:
        """How many tokens `prefill_next` has yet to read."""
        return sum(each.shape[1] for each in self._unread)

    @property
    def has_read_all(self) -> bool:
        """Whether the state has read the whole history: no token was left out, and the context never started again."""
        return self._read_count == self.length

    def verify(self, ids: np.ndarray) -> np.ndarray:
        """Logits (tokens, vocabulary) after each proposed token of a single row; `accept` decides how many to keep."""
        assert 0 < len(ids) <= self.room
        logits, self._proposed = step(self.model, ids[None], self.state)
        return to_numpy(logits[0])

    def accept(self, ids: np.ndarray, count: int) -> None:
        """Keep the first `count` of the tokens given to the last `verify` in the state."""
        if count == len(ids):
            self.state = self._proposed
        elif isinstance(self.model, Rewinds):
            self.state = self.model.rewind(self._proposed, self.state, ids[None, :count])
        else:
            _, self.state = step(self.model, ids[None, :count], self.state)
        self._read_count += count

    def _begin(self, count: int, on_logits: LogitsCallback | None = None) -> list[np.ndarray]:
        """Start a fresh state; returns the last `count` tokens in the chunks that it has to read."""
        self.state = self.model.start(len(self._tokens), self.condition)
        self._read_count = 0
        field = getattr(self.model, "receptive_field", None)
        last = self.history[:, -count:]
        last = last if field is None or on_logits else last[:, -field:]
        return self._chunks(last, SCORED_PREFILL_CHUNK if on_logits else PREFILL_CHUNK)

    @staticmethod
    def _chunks(ids: np.ndarray, size: int) -> list[np.ndarray]:
        """Tokens (rows, time) in the pieces that one step reads, as a bound on the memory of its logits."""
        return [ids[:, start : start + size] for start in range(0, ids.shape[1], size)]

    def _read(self, ids: np.ndarray, on_logits: LogitsCallback | None = None) -> None:
        logits, self.state = step(self.model, ids, self.state, to_last=on_logits is None)
        self._read_count += ids.shape[1]
        if on_logits:
            on_logits(to_numpy(logits[0]))
        self.logits = to_numpy(logits[:, -1])
        # The maximum of a row is NaN if any of its logits is.
        if not (self.logits.max(-1) < np.inf).all():
            raise UserError(NOT_FINITE)
