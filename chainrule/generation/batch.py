"""Continuous batching: samples of one model decode as rows of one batch, which rows join and leave at any time.

A row has its own prompt, settings and random numbers, so its text does not depend on the other rows. `emit` draws a
token for every row, `advance` feeds these tokens to the model; between the two calls, rows may be added and removed.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from chainrule.errors import UserError
from chainrule.generation.constraint import constrain
from chainrule.generation.decoder import NOT_FINITE, Decoder, LogitsCallback, restart_length
from chainrule.generation.draw import draw
from chainrule.generation.filters import largest
from chainrule.generation.processors import LogitsProcessor
from chainrule.generation.prompt import Prompt, Tokenizer
from chainrule.generation.settings import Sampling
from chainrule.generation.stop import StopStrings
from chainrule.models._numpy import step, to_numpy
from chainrule.models.contract import State, Steps
from chainrule.nest import add_rows, remove_row

TopTokens = tuple[tuple[int, float], ...]  # (id, log-probability), most likely first
NO_TOKEN = "this model gives every next token probability zero here; use a smoothed model or another prompt"
NO_TOKEN_LEFT = "the settings rule out every token that the model would take next; loosen them"


@dataclass(frozen=True, slots=True)
class Token:
    """One token of one sample; the `text` of all tokens of a sample, concatenated, is its text.

    `text` is empty while a character is incomplete or while the text may still become a stop string. Log-probabilities
    are the model's own, before any filter; for the first token after a healed prompt they are conditional on the space.
    """

    sample: int
    id: int
    text: str
    log_probability: float
    finish_reason: str | None = None  # "eos", "stop" or "length" on the last token of a sample
    alternatives: TopTokens = ()


def random_stream(seed: int, sample: int) -> np.random.Generator:
    """The random numbers of one sample, one per token, which depend on the seed and the sample's number alone.

    Philox is counter-based, so the streams of adjacent keys are independent: Salmon et al. 2011.
    """
    return np.random.Generator(np.random.Philox(key=np.array([seed, sample], np.uint64)))


class Row:
    """One sample in progress: its tokens so far, its random numbers, and the decoder of its text."""

    width = 1  # rows of the batch that it occupies

    def __init__(
        self, tokenizer: Tokenizer, prompt: Prompt, sampling: Sampling, index: int, condition: object = None
    ) -> None:
        assert sampling.seed is not None
        self.generator = random_stream(sampling.seed, index)
        self.sampling = sampling
        self.index = index
        self.condition = condition  # for starting again once the context is full
        self.ends = (tokenizer.eos, *prompt.ends)
        self._process = LogitsProcessor(sampling, prompt.ids.tolist(), self.ends) if sampling.changes_logits else None
        self._constraint = constrain(tokenizer, prompt, sampling.constraint)
        self.history: list[int] = prompt.ids.tolist()
        self.read_count = len(prompt.ids)  # tokens in its state
        self.remaining = sampling.max_tokens
        self.text = prompt.continuation(tokenizer)
        self.stop = StopStrings(sampling.stop)
        self.finish_reason: str | None = None
        self.processed: np.ndarray | None = None  # the logits to draw from, where they are not the model's own
        self.error: UserError | None = None  # set where no token can be drawn

    def take(self, token: int, log_probability: float, alternatives: TopTokens) -> Token:
        """Append a drawn token, and set `finish_reason` if it ends the sample."""
        self.history.append(token)
        if self._process is not None:
            self._process.append(token)
        if self._constraint is not None:
            self._constraint.append(token)
        self.remaining -= 1
        is_end = token in self.ends
        text = "" if is_end else self.stop.feed(self.text.feed(token))
        if not self.stop.found and (is_end or self.remaining == 0):
            text += self.stop.feed(self.text.flush())
            text += "" if self.stop.found else self.stop.flush()
            self.finish_reason = "eos" if is_end else "length"
        if self.stop.found or (self.finish_reason == "length" and self._is_complete):
            self.finish_reason = "stop"
        return Token(self.index, token, text, log_probability, self.finish_reason, alternatives)

    @property
    def is_over(self) -> bool:
        return self.finish_reason is not None or self.error is not None

    def prepare(self, logits: np.ndarray, top: float) -> None:
        """Process the logits (vocabulary,) of the next token, of which `top` is the largest and NaN if any is.

        Sets `processed`, or `error` where no token can be drawn.
        """
        if not abs(top) < np.inf:
            self.error = UserError(NO_TOKEN if top == -np.inf else NOT_FINITE)
        elif self._process is not None or self._constraint is not None:
            try:
                self.processed = self._process_logits(logits)
            except UserError as error:
                self.error = error

    def _process_logits(self, logits: np.ndarray) -> np.ndarray:
        if self._constraint is not None:
            logits = self._constraint.apply(logits)
        if self._process is not None:
            logits = self._process(logits)
        if logits.max() == -np.inf:
            raise UserError(NO_TOKEN_LEFT)
        return logits

    @property
    def _is_complete(self) -> bool:
        """Whether a text that must match something does, and nothing can be added to it."""
        return self._constraint is not None and self._constraint.is_complete


class SampleBatch:
    """The rows of one model that decode together, their common state, and the logits for the next token of each."""

    def __init__(self, model: Steps, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.context_length: int | None = getattr(model, "context_length", None)
        self.rows: list[Row] = []
        self._state: State = None
        self._logits: list[np.ndarray] = []  # blocks of (rows, vocabulary), in the order of the rows

    @property
    def size(self) -> int:
        return len(self.rows)

    def add(
        self, prompt: Prompt, sampling: Sampling, condition: object = None, on_logits: LogitsCallback | None = None
    ) -> list[Row]:
        """Prefill a prompt once and add `sampling.samples` rows that continue it.

        `sampling` must have its seed. `condition` is what `model.start` takes, for a batch of one. `on_logits` is
        called with the logits of the prompt's positions.
        """
        return self.add_prefilled(
            Decoder(self.model, prompt.ids, condition, prompt.allowed, on_logits), prompt, sampling
        )

    def add_prefilled(self, decoder: Decoder, prompt: Prompt, sampling: Sampling) -> list[Row]:
        """Add `sampling.samples` rows that continue a prompt which `decoder` has read."""
        first, condition = sampling.first_sample, decoder.condition
        decoder.select(np.zeros(sampling.samples, np.int64))
        rows = [Row(self.tokenizer, prompt, sampling, first + index, condition) for index in range(sampling.samples)]
        self._append(rows, decoder)
        return rows

    def remove(self, row: Row) -> None:
        self._remove_at(self.rows.index(row))

    def emit(self) -> list[tuple[Row, Token]]:
        """Draw a token for every row. Rows that end with it, or for which none can be drawn, are removed."""
        if self.rows:
            self._prepare_rows()
        if not self.rows:
            return []
        logits = self._concatenated_logits()
        drawn: list[tuple[Row, Token] | None] = [None] * len(self.rows)
        for places in self._groups():
            group = logits if len(places) == len(logits) else logits[places]
            rows = [self.rows[place] for place in places]
            for place, token in zip(places, draw_tokens(group, rows), strict=True):
                drawn[place] = (self.rows[place], token)
        for place in range(len(self.rows) - 1, -1, -1):
            if self.rows[place].finish_reason is not None:
                self._remove_at(place)
        return [each for each in drawn if each is not None]

    def advance(self) -> None:
        """Feed the drawn tokens to the model. A row whose context is full starts again with its latest tokens."""
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
            row.read_count = restart_length(self.context_length)
            last = np.array(row.history[-row.read_count :], np.int64)
            self._append([row], Decoder(self.model, last, row.condition))

    def _append(self, rows: list[Row], decoder: Decoder) -> None:
        self._state = add_rows(self._state, decoder.state) if self.rows else decoder.state
        self._logits.append(decoder.logits)
        self.rows += rows

    def _remove_at(self, place: int) -> None:
        """Remove one row; the last row moves to its place."""
        logits = self._concatenated_logits()
        logits[place] = logits[-1]
        self._logits = [logits[:-1]]
        self._state = remove_row(self._state, place, len(self.rows))
        self.rows[place] = self.rows[-1]
        self.rows.pop()
        if not self.rows:
            self._state, self._logits = None, []

    def _concatenated_logits(self) -> np.ndarray:
        if len(self._logits) != 1:
            self._logits = [np.concatenate(self._logits)]
        return self._logits[0]

    def _prepare_rows(self) -> None:
        """Process the logits of every row, and remove the rows for which no token can be drawn."""
        logits = self._concatenated_logits()
        for row, own, top in zip(self.rows, logits, logits.max(-1).tolist(), strict=True):
            row.prepare(own, top)
        for place in range(len(self.rows) - 1, -1, -1):
            if self.rows[place].error is not None:
                self._remove_at(place)

    def _groups(self) -> list[list[int]]:
        """The places of the rows, grouped by equal filter settings, so that each group is filtered in one call."""
        groups: dict[tuple[float, ...], list[int]] = defaultdict(list)
        for place, row in enumerate(self.rows):
            groups[row.sampling.filters].append(place)
        return list(groups.values())


def draw_token(logits: np.ndarray, row: Row) -> Token:
    """Draw a token for a single row; logits (1, vocabulary). A UserError where none can be drawn."""
    row.prepare(logits[0], float(logits.max()))
    if row.error is not None:
        raise row.error
    return draw_tokens(logits, [row])[0]


def draw_tokens(logits: np.ndarray, rows: list[Row]) -> list[Token]:
    """Draw a token for each of some prepared rows that have the same filter settings; logits (rows, vocabulary)."""
    settings = rows[0].sampling
    uniforms = np.array([row.generator.random() for row in rows])
    drawn = draw(logits, settings, uniforms, _stack_processed(logits, rows))
    log_probabilities = logits[np.arange(len(rows)), drawn.ids] - drawn.log_normalizer
    alternatives = top_tokens(logits, drawn.log_normalizer, max(row.sampling.alternatives for row in rows))
    return [
        row.take(int(token), float(log_probability), top[: row.sampling.alternatives])
        for row, token, log_probability, top in zip(rows, drawn.ids, log_probabilities, alternatives, strict=True)
    ]


def _stack_processed(logits: np.ndarray, rows: list[Row]) -> np.ndarray | None:
    """The logits to draw from, (rows, vocabulary); None where they are the model's own in every row."""
    if all(row.processed is None for row in rows):
        return None
    return np.stack([own if row.processed is None else row.processed for row, own in zip(rows, logits, strict=True)])


def top_tokens(logits: np.ndarray, normalizers: np.ndarray, count: int) -> list[TopTokens]:
    """The `count` most likely tokens of each row with their log-probabilities, given each row's logsumexp."""
    if count == 0:
        return [()] * len(logits)
    ids = largest(logits, count)
    values = np.take_along_axis(logits, ids, -1) - normalizers[:, None]
    order = np.argsort(-values, axis=-1, kind="stable")
    ids, values = np.take_along_axis(ids, order, -1), np.take_along_axis(values, order, -1)
    return [tuple(zip(row.tolist(), numbers.tolist(), strict=True)) for row, numbers in zip(ids, values, strict=True)]
