"""Sampling: draw one token at a time from the model's filtered distribution, several samples as one batch."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from secrets import randbits
from typing import Any

import numpy as np

from chainrule.checks import require_number, require_whole
from chainrule.errors import UserError
from chainrule.generation.choose import Roll, roll
from chainrule.generation.decoder import Decoder
from chainrule.generation.filters import largest
from chainrule.generation.prompt import Prompt, Tokenizer, read_prompt
from chainrule.generation.stop import StopStrings
from chainrule.models.base import Steps

LARGEST_SEED = 2**64 - 1


@dataclass(frozen=True)
class Sampling:
    """How to draw. `samples` are numbered from `first_sample`; number i depends on the seed and i alone."""

    temperature: float = 1.0  # 0 is greedy
    top_k: int = 0  # 0 keeps every token
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    max_tokens: int = 200
    stop: tuple[str, ...] = ()
    seed: int | None = None
    samples: int = 1
    first_sample: int = 0
    alternatives: int = 0  # how many of the model's most likely tokens to report beside each one drawn
    truncate: bool = False  # of a prompt that is too long, read the last tokens

    def __post_init__(self) -> None:
        require_number("temperature", self.temperature, 0)
        require_whole("top_k", self.top_k, 0)
        require_number("top_p", self.top_p, 0, 1)
        require_number("min_p", self.min_p, 0, 1)
        require_number("repetition_penalty", self.repetition_penalty, 0.01, 100)
        require_whole("max_tokens", self.max_tokens, 1)
        require_whole("samples", self.samples, 1)
        require_whole("first_sample", self.first_sample, 0, 2**32)
        require_whole("alternatives", self.alternatives, 0)
        if self.seed is not None:
            require_whole("seed", self.seed, 0, LARGEST_SEED)
        if not isinstance(self.stop, tuple) or not all(isinstance(text, str) and text for text in self.stop):
            raise UserError(f"stop must be a tuple of strings that are not empty, got {self.stop!r}")

    def seeded(self) -> "Sampling":
        """The same settings with a seed, a fresh one where there was none, so that they can be repeated."""
        return self if self.seed is not None else replace(self, seed=randbits(32))


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


@dataclass(frozen=True)
class Generation:
    """A finished text. `ids` and `log_probabilities` include the eos, or the stop string, that ended it."""

    text: str
    ids: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    finish_reason: str
    sample: int = 0
    seed: int | None = None  # with `sample` as first_sample, draws this text again
    score: float | None = None  # what beam search ranks by


def sample(
    model: Steps, tokenizer: Tokenizer, prompt: str, sampling: Sampling, condition: Any = None
) -> list[Generation]:
    """Every sample once it is finished, in order."""
    sampling = sampling.seeded()
    tokens: dict[int, list[Token]] = {}
    for token in stream(model, tokenizer, prompt, sampling, condition):
        tokens.setdefault(token.sample, []).append(token)
    return [_gather(tokens[index], sampling.seed) for index in sorted(tokens)]


def stream(
    model: Steps, tokenizer: Tokenizer, prompt: str, sampling: Sampling, condition: Any = None
) -> Iterator[Token]:
    """Tokens as they come, those of all samples interleaved. A bad prompt is refused before the first one.

    The prompt is read once, whatever the number of samples. To know the seed, pass `sampling.seeded()`. A
    torch model must be in evaluation mode. `condition` is what `model.start` takes, for a batch of one.
    """
    read = read_prompt(model, tokenizer, prompt, sampling.truncate)
    return _stream(model, tokenizer, read, sampling.seeded(), condition)


def _stream(model: Steps, tokenizer: Tokenizer, prompt: Prompt, sampling: Sampling, condition: Any) -> Iterator[Token]:
    ids = prompt.ids
    decoder = Decoder(model, ids, condition, prompt.allowed)
    decoder.select(np.zeros(sampling.samples, np.int64))
    rows = [_Row(tokenizer, prompt, sampling, sampling.first_sample + index) for index in range(sampling.samples)]
    seen = np.zeros(decoder.logits.shape, bool)
    # The boundary token is not text: to penalize it would only make documents longer.
    seen[:, ids[ids != tokenizer.eos]] = True
    while True:
        rolled = _roll(decoder.logits, seen, sampling, rows)
        chosen = rolled.chosen
        seen[np.arange(len(rows)), chosen] = True
        yield from _tokens(decoder.logits, rolled, sampling.alternatives, rows)
        going_on = np.array([index for index, row in enumerate(rows) if row.finish_reason is None], np.int64)
        if len(going_on) == 0:
            return
        if len(going_on) < len(rows):
            decoder.select(going_on)
            rows, seen, chosen = [rows[index] for index in going_on], seen[going_on], chosen[going_on]
        decoder.append(chosen)


def _roll(logits: np.ndarray, seen: np.ndarray, sampling: Sampling, rows: list["_Row"]) -> Roll:
    if (logits.max(-1) == -np.inf).any():
        raise UserError(
            "this model gives every next token probability zero here; use a smoothed model or another prompt"
        )
    uniforms = np.array([row.generator.random() for row in rows])
    return roll(logits, seen, sampling, uniforms)


def _tokens(logits: np.ndarray, rolled: Roll, alternatives: int, rows: list["_Row"]) -> Iterator[Token]:
    found = logits[np.arange(len(rows)), rolled.chosen] - rolled.log_normalizer
    others = _alternatives(logits, rolled.log_normalizer, alternatives)
    for row, token, log_probability, beside in zip(rows, rolled.chosen, found, others, strict=True):
        yield row.take(int(token), float(log_probability), beside)


def _alternatives(logits: np.ndarray, normalizers: np.ndarray, count: int) -> list[tuple[tuple[int, float], ...]]:
    """The `count` most likely tokens of each row with their log-probabilities, most likely first."""
    if count == 0:
        return [()] * len(logits)
    ids = largest(logits, count)
    values = np.take_along_axis(logits, ids, -1) - normalizers[:, None]
    order = np.argsort(-values, axis=-1, kind="stable")
    ids, values = np.take_along_axis(ids, order, -1), np.take_along_axis(values, order, -1)
    return [tuple(zip(row.tolist(), found.tolist(), strict=True)) for row, found in zip(ids, values, strict=True)]


class _Row:
    """One sample in progress: its own random numbers, and its text on the way out."""

    def __init__(self, tokenizer: Tokenizer, prompt: Prompt, sampling: Sampling, index: int) -> None:
        # A counter-based generator makes streams of adjacent keys independent: Salmon et al. 2011.
        key = np.array([sampling.seed, index], np.uint64)
        self.generator = np.random.Generator(np.random.Philox(key=key))
        self.index = index
        self.eos = tokenizer.eos
        self.remaining = sampling.max_tokens
        self.text = prompt.continuation(tokenizer)
        self.stop = StopStrings(sampling.stop)
        self.finish_reason: str | None = None

    def take(self, token: int, log_probability: float, alternatives: tuple[tuple[int, float], ...]) -> Token:
        """Add a drawn token, and end the sample if it has to end here."""
        self.remaining -= 1
        is_eos = token == self.eos
        text = "" if is_eos else self.stop.feed(self.text.feed(token))
        if not self.stop.found and (is_eos or self.remaining == 0):
            text += self.stop.feed(self.text.flush())
            text += "" if self.stop.found else self.stop.flush()
            self.finish_reason = "eos" if is_eos else "length"
        if self.stop.found:
            self.finish_reason = "stop"
        return Token(self.index, token, text, log_probability, self.finish_reason, alternatives)


def _gather(tokens: list[Token], seed: int | None) -> Generation:
    reason = tokens[-1].finish_reason
    assert reason is not None
    return Generation(
        text="".join(token.text for token in tokens),
        ids=tuple(token.id for token in tokens),
        log_probabilities=tuple(token.log_probability for token in tokens),
        finish_reason=reason,
        sample=tokens[0].sample,
        seed=seed,
    )
