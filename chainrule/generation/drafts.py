"""Guesses of the next few tokens that cost next to nothing, for a model to verify in one step.

A step that reads five tokens takes a large model hardly longer than one that reads one. So if the next four can be
guessed, they are read at once, and as many as the model itself would have drawn are kept (Leviathan et al. 2023).
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from chainrule.models._numpy import step, to_numpy
from chainrule.models.base import Steps

LONGEST = 4  # tokens of a context that are looked up
MOST = 8  # tokens guessed at once


class Draft(Protocol):
    def guess(self, history: Sequence[int], most: int) -> list[int]:
        """At most so many tokens that may come after this history, which has grown since the last call."""
        ...


class Lookup:
    """What came after the same few tokens the last time: names, code and quotations repeat ("prompt lookup")."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, ...], int] = {}  # where what follows such tokens begins
        self._read = 0

    def guess(self, history: Sequence[int], most: int) -> list[int]:
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
    """The likeliest tokens by a smaller model of the same vocabulary, an n-gram for one."""

    def __init__(self, model: Steps) -> None:
        self._model = model
        self._state = model.start(1)
        self._read = 0

    def guess(self, history: Sequence[int], most: int) -> list[int]:
        ids = np.array(history[self._read :], np.int64)[None]
        logits, self._state = step(self._model, ids, self._state, to_last=True)
        self._read = len(history)
        found: list[int] = []
        state = self._state
        while len(found) < most:
            found.append(int(to_numpy(logits[0, -1]).argmax()))
            if len(found) < most:
                logits, state = step(self._model, np.array([found[-1:]], np.int64), state)
        return found
