"""Guesses of the next few tokens that cost next to nothing, for a model to verify in one step.

A step that reads five tokens takes a large model hardly longer than one that reads one. So if the next four can be
guessed, they are read at once, and as many as the model itself would have drawn are kept (Leviathan et al. 2023).
"""

import sys
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from chainrule.generation.decoder import half_of
from chainrule.models._numpy import step, to_numpy
from chainrule.models.contract import Steps

LONGEST = 4  # tokens of a context that are looked up
MOST = 8  # tokens guessed at once


class Draft(Protocol):
    def guess(self, history: Sequence[int], most: int) -> list[int]:
        """At most so many tokens that may come after this history: that of the last call, longer now, or another."""
        ...


class Lookup:
    """What came after the same few tokens the last time: names, code and quotations repeat ("prompt lookup")."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, ...], int] = {}  # where what follows such tokens begins
        self._read = 0

    def guess(self, history: Sequence[int], most: int) -> list[int]:
        if len(history) < self._read:  # another text
            self._ends, self._read = {}, 0
        for end in range(self._read, len(history)):  # the end of the history itself is not yet followed by anything
            for length in range(1, min(LONGEST, end) + 1):
                self._ends[tuple(history[end - length : end])] = end
        self._read = len(history)
        for length in range(min(LONGEST, len(history)), 1, -1):
            begin = self._ends.get(tuple(history[len(history) - length :]))
            if begin is not None:
                period = len(history) - begin  # what goes beyond the end goes round
                return [history[begin + place % period] for place in range(most)]
        return []


class Greedy:
    """The likeliest tokens by a smaller model of the same vocabulary, an n-gram for one.

    A full context begins anew with its last half, as that of the model itself does.
    """

    def __init__(self, model: Steps) -> None:
        self._model = model
        self._context: int = getattr(model, "context_length", None) or sys.maxsize
        self._state, self._room = model.start(1), self._context
        self._read = 0

    def guess(self, history: Sequence[int], most: int) -> list[int]:
        new = history[self._read :]
        if not 0 < len(new) <= self._room:  # full, or another text
            self._state, self._room = self._model.start(1), self._context
            new = history if len(history) <= self._context else history[-half_of(self._context) :]
        logits, self._state = step(self._model, np.array(new, np.int64)[None], self._state, to_last=True)
        self._read = len(history)
        self._room -= len(new)
        return self._go_on(logits, min(most, self._room + 1))

    def _go_on(self, logits: Any, count: int) -> list[int]:
        """So many tokens after what was read; the last of them need not be read."""
        found: list[int] = []
        state = self._state
        while len(found) < count:
            found.append(int(to_numpy(logits[0, -1]).argmax()))
            if len(found) < count:
                logits, state = step(self._model, np.array([found[-1:]], np.int64), state)
        return found
