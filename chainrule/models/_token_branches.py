"""Sums over the ways to cut the beginning of a text's next bytes into tokens, each weighed by a network of tokens."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from chainrule.kernels.jit import kernel_of_sums
from chainrule.models._bits import BYTES
from chainrule.models._token_paths import Hypotheses
from chainrule.models.contract import State
from chainrule.models.transformer import Model

SMALLEST_SHARE = 1e-3  # of a hypothesis beside those of fewer tokens: below it the network is not asked
FLOOR = 1e-5  # the share of 1/257 in every prediction, so that no byte is impossible
AT_ONCE = 256  # tokens whose distributions are made at one time

Chances = Callable[[torch.Tensor], np.ndarray]  # hidden (1, tokens, width) -> p(token) in the order of spellings


class Branches:
    """Tokens that go on in different ways with the last ones that a network has read, read only once each."""

    def __init__(self, network: Model, chances: Chances, state: State, tokens: Sequence[int], before: int):
        """`tokens`, which the state has read after so many others, give the rows 1, 2, ... of a table of distributions;
        row 0 is the one before them."""
        self._network, self._chances, self._read_before, self._state = network, chances, state, state
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
        return self._chances(hidden)

    def take_back(self) -> State:
        """The state that has read none of it."""
        if self._state is self._read_before:
            return self._state
        return self._network.rewind(self._state, self._read_before, np.zeros((1, 0), np.int64))


class Weighed(NamedTuple):
    """The hypotheses of several beginnings, one after the other."""

    all: Hypotheses
    weight: np.ndarray  # p(the tokens of each)
    following: np.ndarray  # p(what follows them goes on with u and then with a symbol): (hypotheses, 257)

    def predictions(self) -> np.ndarray:
        """p(symbol) after each beginning, (beginnings, 257)."""
        firsts = np.flatnonzero(self.all.depth == 0)
        found = np.add.reduceat(self.weight[:, None] * self.following, firsts)
        total = found.sum(1, keepdims=True)
        found = np.where(total > 0, found / np.where(total > 0, total, 1.0), 1 / BYTES)
        predicted: np.ndarray = (1 - FLOOR) * found + FLOOR / BYTES
        return predicted


def weigh(
    hypotheses: Sequence[Hypotheses], rows: np.ndarray, chances: np.ndarray, branches: Branches, room: int
) -> Weighed:
    """The hypotheses of beginnings, each of which comes after one of the rows of p(token), in the order of spellings.

    The network reads at most `room` tokens of a hypothesis.
    """
    found, beginning = _join(hypotheses)
    weight, row = np.ones(len(beginning)), rows[beginning]
    is_read, mass = np.ones(len(beginning), bool), np.zeros(len(hypotheses))
    following = np.empty((len(beginning), BYTES))
    for depth in range(int(found.depth.max()) + 1):
        here = np.flatnonzero(found.depth == depth)
        if depth:
            above = found.parent[here]
            weight[here] = weight[above] * chances[row[above], found.column[here]]
            is_read[here] = is_read[above] & (weight[here] >= SMALLEST_SHARE * mass[beginning[here]]) & (depth <= room)
            row[here] = row[above]
            asked = here[is_read[here]]
            row[asked], new = branches.read(row[asked], found.token[asked])
            chances = np.concatenate([chances, *new]) if new else chances
        sums = np.empty((len(here), BYTES))
        _add_between(chances, row[here], found.bounds[here], found.is_empty[here], sums)
        following[here] = sums
        np.add.at(mass, beginning[here], weight[here] * sums.sum(1))
    return Weighed(found, weight, following)


@kernel_of_sums
def _add_between(
    chances: np.ndarray, rows: np.ndarray, bounds: np.ndarray, is_empty: np.ndarray, out: np.ndarray
) -> None:
    """out (hypotheses, 257): the sum of a row of p(token) between bounds, and the last of the row where `is_empty`."""
    last = chances.shape[1] - 1
    for i in range(len(rows)):
        of_row = chances[rows[i]]
        for byte in range(256):
            total = 0.0
            for place in range(bounds[i, byte], bounds[i, byte + 1]):
                total += of_row[place]
            out[i, byte] = total
        out[i, 256] = of_row[last] if is_empty[i] else 0.0


def _join(hypotheses: Sequence[Hypotheses]) -> tuple[Hypotheses, np.ndarray]:
    """The hypotheses of all beginnings as one table, and the beginning of each."""
    counts = np.array([len(each.depth) for each in hypotheses])
    beginning = np.repeat(np.arange(len(counts)), counts)
    joined = Hypotheses(*map(np.concatenate, zip(*hypotheses, strict=True)))
    return joined._replace(parent=joined.parent + (np.cumsum(counts) - counts)[beginning]), beginning
