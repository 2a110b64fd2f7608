"""Changes to the next token's logits that depend on the tokens a sample has so far, made before the filters.

In the order in which they are made, as in Hugging Face and vLLM: logit_bias, repetition_penalty, frequency_penalty,
presence_penalty, no_repeat_ngram_size, min_tokens.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from chainrule.errors import UserError
from chainrule.generation.filters import repetition_penalty


class Processing(Protocol):
    """The settings that change logits by what came before; `Sampling` has them all."""

    @property
    def logit_bias(self) -> Mapping[int, float] | None: ...
    @property
    def repetition_penalty(self) -> float: ...
    @property
    def frequency_penalty(self) -> float: ...
    @property
    def presence_penalty(self) -> float: ...
    @property
    def no_repeat_ngram_size(self) -> int: ...
    @property
    def min_tokens(self) -> int: ...


def check_bias(logit_bias: Mapping[int, float] | None, vocabulary_size: int) -> None:
    """Refuse a bias of tokens that are not in the vocabulary."""
    unknown = next((id for id in logit_bias or () if id >= vocabulary_size), None)
    if unknown is not None:
        raise UserError(
            f"logit_bias names the token {unknown}, but the last one of this model is {vocabulary_size - 1}"
        )


class LogitsProcessor:
    """The changes to one sample's logits. `append` tells it every token that is drawn.

    The repetition penalty and the n-grams count the tokens of the prompt, too, and the token that begins and ends every
    document like any other; frequency and presence are of the tokens drawn alone.
    """

    def __init__(self, settings: Processing, prompt: Sequence[int], ends: tuple[int, ...]) -> None:
        self._settings, self._ends = settings, list(ends)
        self._ids = list(prompt)
        self._num_drawn = 0
        self._seen = self._counts = self._bias = np.empty(0)  # (vocabulary,) each, made when its size is known
        self._following: defaultdict[tuple[int, ...], set[int]] = defaultdict(set)  # n-1 tokens -> what came next
        for end in range(1, len(prompt) + 1) if settings.no_repeat_ngram_size else ():
            self._add_ngram(end)

    def __call__(self, logits: np.ndarray) -> np.ndarray:
        """The changed logits of the next token, (vocabulary,); the same array where nothing changes."""
        if not self._seen.size:
            self._begin(len(logits))
        settings = self._settings
        if settings.logit_bias:
            logits = logits + self._bias
        logits = repetition_penalty(logits[None], self._seen[None], settings.repetition_penalty)[0]
        if settings.frequency_penalty or settings.presence_penalty:
            counts = self._counts
            logits = logits - (settings.frequency_penalty * counts + settings.presence_penalty * (counts > 0))
        banned = self._banned()
        if banned:
            logits = logits.copy()
            logits[banned] = -np.inf
        return logits

    def append(self, token: int) -> None:
        self._ids.append(token)
        self._num_drawn += 1
        if self._seen.size:
            self._seen[token] = True
            self._counts[token] += 1
        if self._settings.no_repeat_ngram_size:
            self._add_ngram(len(self._ids))

    def _begin(self, vocabulary_size: int) -> None:
        """Make the arrays of the vocabulary's size; no token has been drawn yet."""
        self._seen = np.zeros(vocabulary_size, bool)
        self._seen[self._ids] = True
        self._counts = np.zeros(vocabulary_size, np.float32)
        self._bias = np.zeros(vocabulary_size, np.float32)
        for id, bias in (self._settings.logit_bias or {}).items():
            self._bias[id] = bias

    def _add_ngram(self, end: int) -> None:
        size = self._settings.no_repeat_ngram_size
        if end >= size:
            self._following[tuple(self._ids[end - size : end - 1])].add(self._ids[end - 1])

    def _banned(self) -> list[int]:
        """Tokens that would repeat an n-gram, and end tokens that would come too early."""
        banned = self._ends if self._num_drawn < self._settings.min_tokens else []
        size = self._settings.no_repeat_ngram_size
        if size and len(self._ids) + 1 >= size:
            last = tuple(self._ids[len(self._ids) - size + 1 :])
            banned = [*banned, *self._following.get(last, ())]
        return banned
