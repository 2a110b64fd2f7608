"""Pairs of answers as rows of tokens, two of each pair side by side: stored, and read in batches of whole pairs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chainrule.data.batches import TrainingBatch
from chainrule.data.buckets import Buckets
from chainrule.data.preferences import Preference
from chainrule.errors import UserError
from chainrule.tasks._conversation_rows import Rows
from chainrule.text.base import Tokenizer
from chainrule.text.rendering import Rendered, render


@dataclass(frozen=True)
class PairRows:
    """Of pair n, row 2n is the prompt with the chosen answer and row 2n + 1 that with the rejected one."""

    rows: Rows

    def __len__(self) -> int:
        return len(self.rows) // 2

    @property
    def sizes(self) -> np.ndarray:
        """The tokens that each pair has in a batch: twice those of its longer row, but for the last."""
        lengths = np.array([len(each) - 1 for each in self.rows.ids], np.int64).reshape(-1, 2)
        sizes: np.ndarray = 2 * lengths.max(1, initial=0)
        return sizes

    @property
    def chosen(self) -> Rows:
        return Rows(self.rows.ids[::2], self.rows.is_asked[::2], self.rows.answer_bytes[::2])

    def some(self, most: int | None) -> np.ndarray:
        """The numbers of pairs from all over that have about so many tokens to read; None: all."""
        if most is None or self.rows.tokens <= most or not len(self):
            return np.arange(len(self))
        count = max(int(len(self) * most / self.rows.tokens), 1)
        return np.unique(np.linspace(0, len(self) - 1, count).astype(int))

    def batch(self, pairs: Sequence[int] | np.ndarray, padding: int) -> TrainingBatch:
        """inputs and targets (pairs, 2, time), the chosen answer first; `condition` has the numbers of the pairs."""
        numbers = np.asarray(pairs, np.int64)
        flat = self.rows.batch((2 * numbers[:, None] + np.arange(2)).flatten().tolist(), padding)
        inputs, targets = (each.reshape(len(numbers), 2, -1) for each in (flat.inputs, flat.targets))
        return TrainingBatch(inputs, targets, condition={"pair": numbers}, examples=len(numbers))

    def save(self, path: Path) -> None:
        self.rows.save(path)

    @classmethod
    def load(cls, path: Path) -> "PairRows":
        return cls(Rows.load(path))


class PreferenceBatches:
    """As many pairs as fit into so many tokens, of about the same length, in a new order every epoch."""

    def __init__(self, rows: PairRows, padding: int, tokens: int, seed: int):
        if not len(rows):
            raise UserError("there is no pair of answers to train on; give more pairs")
        self._rows, self._padding = rows, padding
        self._buckets = Buckets(rows.sizes, tokens, seed)
        self.batch_size = max(self._buckets.sizes)
        self.tokens_per_epoch = rows.rows.tokens
        self.length = int(rows.sizes.max())

    @property
    def tokens_per_step(self) -> float:
        return self.tokens_per_epoch / len(self._buckets)

    def epochs(self, steps: int) -> list[float]:
        return [steps / len(self._buckets)]

    def batch(self, step: int) -> TrainingBatch:
        return self._rows.batch(self._buckets.rows(step), self._padding)


@dataclass
class EncodedPairs:
    rows: PairRows
    kept: list[int]  # which of the pairs have rows: those that are not too long


def encode_pairs(tokenizer: Tokenizer, pairs: Sequence[Preference], most: int) -> EncodedPairs:
    """Rows of at most so many tokens."""
    kept: list[int] = []
    found: list[Rendered] = []
    for number, pair in enumerate(pairs):
        both = [render(tokenizer, [*pair.prompt, answer], "last")[0] for answer in pair.answers]
        if max(len(row.ids) for row in both) <= most:
            kept.append(number)
            found += both
    return EncodedPairs(PairRows(Rows.of(found)), kept)
