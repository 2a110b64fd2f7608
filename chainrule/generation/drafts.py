"""Drafts for speculative decoding: cheap proposals of the next few tokens, which the model verifies in one step.

A step that reads five tokens takes a large model hardly longer than a step that reads one (Leviathan et al. 2023).
"""

import sys
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from chainrule.generation.decoder import restart_length
from chainrule.models._numpy import step, to_numpy
from chainrule.models.contract import Array, Steps

LONGEST_MATCH = 4  # tokens of context that are looked up
MOST_PROPOSED = 8  # tokens at a time


class Draft(Protocol):
    """Proposes the tokens that may follow a text."""

    def propose(self, history: Sequence[int], most: int) -> list[int]:
        """At most `most` tokens after `history`, which extends the history of the last call or is another text."""
        ...


class PromptLookup:
    """Proposes what followed the same few tokens the last time, as names, code and quotations repeat."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, ...], int] = {}  # n-gram -> the position after its last occurrence
        self._read = 0

    def propose(self, history: Sequence[int], most: int) -> list[int]:
        if len(history) < self._read:  # another text
            self._ends, self._read = {}, 0
        for end in range(self._read, len(history)):  # nothing follows the end of the history yet
            for length in range(1, min(LONGEST_MATCH, end) + 1):
                self._ends[tuple(history[end - length : end])] = end
        self._read = len(history)
        for length in range(min(LONGEST_MATCH, len(history)), 1, -1):
            begin = self._ends.get(tuple(history[len(history) - length :]))
            if begin is not None:
                period = len(history) - begin  # a match that reaches the end repeats
                return [history[begin + place % period] for place in range(most)]
        return []


class GreedyDraft:
    """Proposes the greedy continuation by a smaller model of the same vocabulary, such as an n-gram.

    A full context starts again with its last half, as that of the large model does.
    """

    def __init__(self, model: Steps) -> None:
        self._model = model
        self._context: int = getattr(model, "context_length", None) or sys.maxsize
        self._state, self._room = model.start(1), self._context
        self._read = 0

    def propose(self, history: Sequence[int], most: int) -> list[int]:
        new = history[self._read :]
        if not 0 < len(new) <= self._room:  # full, or another text
            self._state, self._room = self._model.start(1), self._context
            new = history if len(history) <= self._context else history[-restart_length(self._context) :]
        logits, self._state = step(self._model, np.array(new, np.int64)[None], self._state, to_last=True)
        self._read = len(history)
        self._room -= len(new)
        return self._continue(logits, min(most, self._room + 1))

    def _continue(self, logits: Array, count: int) -> list[int]:
        """The next `count` tokens, given the logits after the history; the last one is not read."""
        tokens: list[int] = []
        state = self._state
        while len(tokens) < count:
            tokens.append(int(to_numpy(logits[0, -1]).argmax()))
            if len(tokens) < count:
                logits, state = step(self._model, np.array([tokens[-1:]], np.int64), state)
        return tokens
