"""Sums over the ways to cut the beginning of a text's next bytes into tokens, each weighed by a network of tokens."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from chainrule.models._bits import BYTES
from chainrule.models._token_paths import Hypotheses
from chainrule.models.contract import State
from chainrule.models.transformer import Model

SMALLEST_SHARE = 1e-3  # of a hypothesis beside those of fewer tokens: below it the network is not asked
FLOOR = 1e-5  # the share of 1/257 in every prediction, so that no byte is impossible
AT_ONCE = 128  # tokens whose distributions are made at one time

Sums = Callable[[torch.Tensor], np.ndarray]  # hidden (1, tokens, width) -> p(token) summed in the order of spellings


class Branches:
    """Tokens that go on in different ways with the last ones that a network has read, read only once each."""

    def __init__(self, network: Model, sums: Sums, state: State, tokens: Sequence[int], before: int):
        """`tokens`, which the state has read after so many others, give the rows 1, 2, ... of a table of distributions;
        row 0 is the one before them."""
        self._network, self._sums, self._read_before, self._state = network, sums, state, state
        self._row_after = {(row, token): row + 1 for row, token in enumerate(tokens)}
        self._place = list(range(before - 1, before + len(tokens)))  # of each row's token in its text
        self._sees: list[tuple[int, tuple[int, ...]]] = [
            (place + 1, ()) for place in self._place
        ]  # the first tokens read, and others by their numbers
        self._read: int = before + len(tokens)

    def read(self, rows: np.ndarray, tokens: np.ndarray) -> tuple[list[int], list[np.ndarray]]:
        """The rows of what follows a token after each of these rows, and the new ones among them."""
        pairs = list(zip(rows.tolist(), tokens.tolist(), strict=True))
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._row_after]
        found = [self._read_new(new[first : first + AT_ONCE]) for first in range(0, len(new), AT_ONCE)]
        return [self._row_after[pair] for pair in pairs], found

    def _read_new(self, pairs: Sequence[tuple[int, int]]) -> np.ndarray:
        sees = np.zeros((len(pairs), self._read + len(pairs)), bool)
        for i, (row, token) in enumerate(pairs):
            self._row_after[row, token] = len(self._place)
            first, others = self._sees[row]
            others = (*others, self._read + i)
            sees[i, :first] = sees[i, list(others)] = True
            self._place.append(self._place[row] + 1)
            self._sees.append((first, others))
        self._read += len(pairs)
        ids = torch.tensor([token for _, token in pairs], device=self._network.device)
        places = torch.tensor(self._place[-len(pairs) :], device=self._network.device)
        seen = torch.from_numpy(sees).to(self._network.device)
        hidden, self._state = self._network.read_branches(ids, places, seen, self._state)
        return self._sums(hidden)

    def take_back(self) -> State:
        """The state that has read none of it."""
        if self._state is self._read_before:
            return self._state
        return self._network.rewind(self._state, self._read_before, np.zeros((1, 0), np.int64))


class Weighed(NamedTuple):
    """The hypotheses of several beginnings, one after the other."""

    all: Hypotheses
    beginning: np.ndarray  # whose each is
    weight: np.ndarray  # p(its tokens)
    row: np.ndarray  # of `upto`: what follows them
    upto: np.ndarray  # (rows, 2 + texts): p(token), summed in the order of spellings; the end of a text is the last

    def symbols(self) -> np.ndarray:
        """p(its tokens, and that u goes on with each symbol after them): (hypotheses, 257)."""
        edges = self.upto[self.row[:, None], self.all.bounds]
        end = np.where(self.all.is_empty, self.upto[self.row, -1] - self.upto[self.row, -2], 0.0)
        found: np.ndarray = self.weight[:, None] * np.concatenate([np.diff(edges), end[:, None]], 1)
        return found

    def predictions(self) -> np.ndarray:
        """p(symbol) after each beginning, (beginnings, 257)."""
        starts = np.flatnonzero(self.all.depth == 0)
        found = np.add.reduceat(self.symbols(), starts)
        total = found.sum(1, keepdims=True)
        found = np.where(total > 0, found / np.where(total > 0, total, 1.0), 1 / BYTES)
        predicted: np.ndarray = (1 - FLOOR) * found + FLOOR / BYTES
        return predicted


def weigh(
    hypotheses: Sequence[Hypotheses], rows: np.ndarray, upto: np.ndarray, branches: Branches, room: int
) -> Weighed:
    """Hypotheses of beginnings, each of which comes after a row of `upto`; the network reads at most `room` tokens."""
    found, beginning = _join(hypotheses)
    weight, row = np.ones(len(beginning)), rows[beginning]
    is_read, mass = np.ones(len(beginning), bool), np.zeros(len(hypotheses))
    for depth in range(int(found.depth.max()) + 1):
        here = np.flatnonzero(found.depth == depth)
        if depth:
            above, column = found.parent[here], found.column[here]
            chance = upto[row[above], column + 1] - upto[row[above], column]
            weight[here] = np.where(found.is_alone[here], 1.0, weight[above] * chance)
            is_read[here] = is_read[above] & (weight[here] >= SMALLEST_SHARE * mass[beginning[here]]) & (depth <= room)
            row[here] = row[above]
            asked = here[is_read[here]]
            row[asked], new = branches.read(row[asked], found.token[asked])
            upto = np.concatenate([upto, *new]) if new else upto
        np.add.at(mass, beginning[here], weight[here] * _mass(found, here, upto, row[here]))
    return Weighed(found, beginning, weight, row, upto)


def _join(hypotheses: Sequence[Hypotheses]) -> tuple[Hypotheses, np.ndarray]:
    """The hypotheses of all beginnings as one table, and the beginning of each."""
    counts = np.array([len(each.depth) for each in hypotheses])
    beginning = np.repeat(np.arange(len(counts)), counts)
    joined = Hypotheses(*map(np.concatenate, zip(*hypotheses, strict=True)))
    return joined._replace(parent=joined.parent + (np.cumsum(counts) - counts)[beginning]), beginning


def _mass(found: Hypotheses, here: np.ndarray, upto: np.ndarray, row: np.ndarray) -> np.ndarray:
    """p(that the beginning goes on after a hypothesis' tokens)."""
    last = np.where(found.is_empty[here], upto.shape[1] - 1, found.bounds[here, -1])
    found_mass: np.ndarray = upto[row, last] - upto[row, found.bounds[here, 0]]
    return found_mass
