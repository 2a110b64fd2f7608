"""Beam search: the most likely texts, found by keeping the `width` best beginnings at every length.

A text of log-probability L and n tokens, eos included, scores L / n**length_penalty. A beginning that ends
takes one of the places of its step, so that a beam of width 1 is greedy decoding.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule.checks import require_number, require_whole
from chainrule.errors import UserError
from chainrule.generation.decoder import Decoder
from chainrule.generation.filters import largest
from chainrule.generation.prompt import Prompt, Tokenizer, read_prompt
from chainrule.generation.sample import Generation
from chainrule.models.base import Steps, log_softmax


@dataclass(frozen=True)
class Beam:
    """How to search; the `samples` best texts are returned."""

    width: int = 4
    length_penalty: float = 1.0  # above 0 favours long texts, below 0 short ones
    max_tokens: int = 200
    samples: int = 1
    truncate: bool = False  # of a prompt that is too long, read the last tokens

    def __post_init__(self) -> None:
        require_whole("width", self.width, 1, 1000)
        require_number("length_penalty", self.length_penalty, -10, 10)
        require_whole("max_tokens", self.max_tokens, 1)
        require_whole("samples of a beam", self.samples, 1, self.width)

    def score(self, log_probability: float, length: int) -> float:
        return float(log_probability / length**self.length_penalty)

    def bound(self, log_probability: float, length: int) -> float:
        """The best score that anything starting with these tokens can still reach.

        More tokens only lower the log-probability, and n**length_penalty is largest at one end of the lengths
        that are left.
        """
        longest = max(length + 1, self.max_tokens)
        return max(self.score(log_probability, length + 1), self.score(log_probability, longest))


def beam_search(model: Steps, tokenizer: Tokenizer, prompt: str, beam: Beam, condition: Any = None) -> list[Generation]:
    """The best texts found, best first."""
    read = read_prompt(model, tokenizer, prompt, beam.truncate)
    search = _Search(Decoder(model, read.ids, condition, read.allowed), tokenizer, read, beam)
    while search.is_going_on():
        search.advance()
    if not search.kept:
        raise UserError("this model gives every continuation probability zero; use a smoothed model or another prompt")
    return search.kept


class _Search:
    """The beginnings that go on, as rows of the decoder, and the best finished texts."""

    def __init__(self, decoder: Decoder, tokenizer: Tokenizer, prompt: Prompt, beam: Beam) -> None:
        self.prompt = prompt
        self.decoder = decoder
        self.tokenizer = tokenizer
        self.beam = beam
        self.kept: list[Generation] = []  # best first, no more than are asked for
        self.prompt_length = decoder.length
        self.live = np.zeros((1, 0))  # log-probabilities of the tokens so far: (rows, length)

    def is_going_on(self) -> bool:
        """Whether a live beginning may still end better than the worst text kept."""
        if len(self.live) == 0:
            return False
        if len(self.kept) < self.beam.samples:
            return True
        best = self.live.sum(-1).max()
        return self.beam.bound(best, self.live.shape[1]) > (self.kept[-1].score or 0.0)

    def advance(self) -> None:
        """Make every live beginning one token longer and keep the best."""
        rows, ids, found = self._best_continuations()
        live = np.concatenate([self.live[rows], found[:, None]], -1)
        ended = ids == self.tokenizer.eos
        is_last = live.shape[1] == self.beam.max_tokens
        for index in np.flatnonzero(ended | is_last):
            reason = "eos" if ended[index] else "length"
            self._finish([*self._generated(rows[index]), int(ids[index])], live[index], reason)
        going_on = np.flatnonzero(~ended & (not is_last))
        self.live = live[going_on]
        if len(going_on):
            self.decoder.select(rows[going_on])
            self.decoder.append(ids[going_on])

    def _best_continuations(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row, id and log-probability of the `width` best next tokens over all rows, best first."""
        next_ones = log_softmax(self.decoder.logits)  # (rows, vocabulary)
        totals = (next_ones + self.live.sum(-1, keepdims=True)).reshape(1, -1)
        places = largest(totals, self.beam.width)[0]
        places = places[totals[0, places] > -np.inf]
        places = places[np.argsort(-totals[0, places], kind="stable")]
        rows, ids = np.divmod(places, next_ones.shape[1])
        return rows, ids, next_ones[rows, ids]

    def _generated(self, row: int) -> list[int]:
        ids: list[int] = self.decoder.history[row, self.prompt_length :].tolist()
        return ids

    def _finish(self, ids: list[int], log_probabilities: np.ndarray, reason: str) -> None:
        """Keep a finished text if it is among the best."""
        score = self.beam.score(float(log_probabilities.sum()), len(ids))
        stream = self.prompt.continuation(self.tokenizer)
        text = "".join(stream.feed(id) for id in (ids[:-1] if reason == "eos" else ids)) + stream.flush()
        done = Generation(text, tuple(ids), tuple(log_probabilities.tolist()), reason, score=score)
        self.kept = sorted([*self.kept, done], key=lambda kept: -(kept.score or 0.0))[: self.beam.samples]
