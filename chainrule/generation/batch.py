"""Samples of one model that grow together, whoever asked for them: rows of one batch that come and go.

A row has its own prompt, settings and random numbers, so what it says does not depend on the others. By turns,
`roll` draws a token for every row and `advance` reads them. In between, rows may be added and removed.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule.errors import UserError
from chainrule.generation.choose import Roll, roll
from chainrule.generation.decoder import NOT_FINITE, Decoder, Heed, half_of
from chainrule.generation.filters import largest
from chainrule.generation.prompt import Prompt, Tokenizer
from chainrule.generation.settings import Sampling
from chainrule.generation.stop import StopStrings
from chainrule.models._numpy import step, to_numpy
from chainrule.models.contract import State, Steps, add_rows, remove_row

NO_TOKEN = "this model gives every next token probability zero here; use a smoothed model or another prompt"


@dataclass(frozen=True, slots=True)
class Token:
    """One token of one sample. The pieces of text of a sample add up to its whole text.

    `text` may be empty, in the middle of a character or of what may become a stop string. Log-probabilities
    are the model's own, before any filter (after a space that was taken back, given that space).
    """

    sample: int
    id: int
    text: str
    log_probability: float
    finish_reason: str | None = None  # "eos", "stop" or "length" on the last token of a sample
    alternatives: tuple[tuple[int, float], ...] = ()  # (id, log-probability), most likely first


def dice_of(seed: int, sample: int) -> np.random.Generator:
    """The random numbers of one sample: one for each token, whatever the model and the settings.

    A counter-based generator makes streams of adjacent keys independent: Salmon et al. 2011.
    """
    return np.random.Generator(np.random.Philox(key=np.array([seed, sample], np.uint64)))


class Row:
    """One sample in progress: its own random numbers, and its text on the way out."""

    width = 1  # how many rows of the batch it takes

    def __init__(
        self, tokenizer: Tokenizer, prompt: Prompt, sampling: Sampling, index: int, condition: Any = None
    ) -> None:
        assert sampling.seed is not None
        self.generator = dice_of(sampling.seed, index)
        self.sampling = sampling
        self.index = index
        self.condition = condition  # what a full context begins anew with
        self.ends = (tokenizer.eos, *prompt.ends)
        self.history: list[int] = prompt.ids.tolist()
        self.read_count = len(prompt.ids)  # how many tokens its state has read
        self.remaining = sampling.max_tokens
        self.text = prompt.continuation(tokenizer)
        self.stop = StopStrings(sampling.stop)
        self.finish_reason: str | None = None
        self.error: UserError | None = None  # why it ended with no reason of its own

    def take(self, token: int, log_probability: float, alternatives: tuple[tuple[int, float], ...]) -> Token:
        """Add a drawn token, and end the sample if it has to end here."""
        self.history.append(token)
        self.remaining -= 1
        is_end = token in self.ends
        text = "" if is_end else self.stop.feed(self.text.feed(token))
        if not self.stop.found and (is_end or self.remaining == 0):
            text += self.stop.feed(self.text.flush())
            text += "" if self.stop.found else self.stop.flush()
            self.finish_reason = "eos" if is_end else "length"
        if self.stop.found:
            self.finish_reason = "stop"
        return Token(self.index, token, text, log_probability, self.finish_reason, alternatives)

    @property
    def is_over(self) -> bool:
        return self.finish_reason is not None or self.error is not None

    def seen(self, vocabulary_size: int) -> np.ndarray:
        """(vocabulary,) What ends a text is not text: to penalize it would only make documents longer."""
        found = np.zeros(vocabulary_size, bool)
        found[self.history] = True
        found[list(self.ends)] = False
        return found


class Batch:
    def __init__(self, model: Steps, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.context_length: int | None = getattr(model, "context_length", None)
        self.rows: list[Row] = []
        self._state: State = None
        self._logits: list[np.ndarray] = []  # (some rows, vocabulary) each, in the order of the rows

    @property
    def size(self) -> int:
        return len(self.rows)

    def add(self, prompt: Prompt, sampling: Sampling, condition: Any = None, heed: Heed | None = None) -> list[Row]:
        """As many new rows as samples are asked for; the prompt is read once, and `heed` sees its logits.

        `sampling` must have its seed. `condition` is what `model.start` takes, for a batch of one.
        """
        return self.join(Decoder(self.model, prompt.ids, condition, prompt.allowed, heed), prompt, sampling)

    def join(self, decoder: Decoder, prompt: Prompt, sampling: Sampling) -> list[Row]:
        """The same for a prompt that has been read already."""
        first, condition = sampling.first_sample, decoder.condition
        decoder.select(np.zeros(sampling.samples, np.int64))
        rows = [Row(self.tokenizer, prompt, sampling, first + index, condition) for index in range(sampling.samples)]
        self._join(rows, decoder)
        return rows

    def remove(self, row: Row) -> None:
        self._leave(self.rows.index(row))

    def roll(self) -> list[tuple[Row, Token]]:
        """A token for every row. Rows that end with it, or that cannot go on, leave."""
        if self.rows:
            self._refuse_what_cannot_be_rolled()
        if not self.rows:
            return []
        logits = self._join_logits()
        found: list[tuple[Row, Token] | None] = [None] * len(self.rows)
        for places in self._alike():
            ours = logits if len(places) == len(logits) else logits[places]
            rows = [self.rows[place] for place in places]
            for place, token in zip(places, draw_tokens(ours, rows), strict=True):
                found[place] = (self.rows[place], token)
        for place in range(len(self.rows) - 1, -1, -1):
            if self.rows[place].finish_reason is not None:
                self._leave(place)
        return [each for each in found if each is not None]

    def advance(self) -> None:
        """Read the token that was drawn for every row."""
        full = [row for row in self.rows if self.context_length is not None and row.read_count >= self.context_length]
        for row in full:
            self.remove(row)
        if self.rows:
            ids = np.array([row.history[-1] for row in self.rows], np.int64)
            logits, self._state = step(self.model, ids[:, None], self._state)
            self._logits = [to_numpy(logits[:, -1])]
            for row in self.rows:
                row.read_count += 1
        for row in full:
            assert self.context_length is not None
            row.read_count = half_of(self.context_length)
            last = np.array(row.history[-row.read_count :], np.int64)
            self._join([row], Decoder(self.model, last, row.condition))

    def _join(self, rows: list[Row], decoder: Decoder) -> None:
        self._state = add_rows(self._state, decoder.state) if self.rows else decoder.state
        self._logits.append(decoder.logits)
        self.rows += rows

    def _leave(self, place: int) -> None:
        """The last row takes its place."""
        logits = self._join_logits()
        logits[place] = logits[-1]
        self._logits = [logits[:-1]]
        self._state = remove_row(self._state, place, len(self.rows))
        self.rows[place] = self.rows[-1]
        self.rows.pop()
        if not self.rows:
            self._state, self._logits = None, []

    def _join_logits(self) -> np.ndarray:
        if len(self._logits) != 1:
            self._logits = [np.concatenate(self._logits)]
        return self._logits[0]

    def _refuse_what_cannot_be_rolled(self) -> None:
        top = self._join_logits().max(-1)  # NaN if any is
        for place in np.flatnonzero(~(np.abs(top) < np.inf))[::-1].tolist():
            self.rows[place].error = UserError(NO_TOKEN if top[place] == -np.inf else NOT_FINITE)
            self._leave(place)

    def _alike(self) -> list[list[int]]:
        """The places of rows whose settings are the same, so that they are filtered together."""
        groups: dict[Any, list[int]] = defaultdict(list)
        for place, row in enumerate(self.rows):
            groups[row.sampling.filters].append(place)
        return list(groups.values())


def draw_tokens(logits: np.ndarray, rows: list[Row]) -> list[Token]:
    """A token for each row of a group that is filtered alike."""
    settings = rows[0].sampling
    is_penalized = settings.repetition_penalty != 1
    seen = np.stack([row.seen(logits.shape[1]) for row in rows]) if is_penalized else np.zeros((0, 0), bool)
    uniforms = np.array([row.generator.random() for row in rows])
    rolled = roll(logits, seen, settings, uniforms)
    found = logits[np.arange(len(rows)), rolled.chosen] - rolled.log_normalizer
    others = _alternatives(logits, rolled, max(row.sampling.alternatives for row in rows))
    return [
        row.take(int(token), float(log_probability), beside[: row.sampling.alternatives])
        for row, token, log_probability, beside in zip(rows, rolled.chosen, found, others, strict=True)
    ]


def _alternatives(logits: np.ndarray, rolled: Roll, count: int) -> list[tuple[tuple[int, float], ...]]:
    """The `count` most likely tokens of each row with their log-probabilities, most likely first."""
    if count == 0:
        return [()] * len(logits)
    return most_likely(logits, rolled.log_normalizer, count)


def most_likely(logits: np.ndarray, normalizers: np.ndarray, count: int) -> list[tuple[tuple[int, float], ...]]:
    """(id, log-probability) of the `count` most likely tokens of each row, most likely first."""
    ids = largest(logits, count)
    values = np.take_along_axis(logits, ids, -1) - normalizers[:, None]
    order = np.argsort(-values, axis=-1, kind="stable")
    ids, values = np.take_along_axis(ids, order, -1), np.take_along_axis(values, order, -1)
    return [tuple(zip(row.tolist(), found.tolist(), strict=True)) for row, found in zip(ids, values, strict=True)]
