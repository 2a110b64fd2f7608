"""How often labels are right: overall, label by label, and which are given in place of which."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Part:
    """A number of words, and how many of them were labelled correctly."""

    words: int
    correct: int

    @property
    def accuracy(self) -> float | None:
        return self.correct / self.words if self.words else None


@dataclass(frozen=True)
class Label:
    """One label: how often it was correct where it was given (precision), and given where it was correct (recall)."""

    label: str
    words: int  # that should have it
    given: int
    correct: int

    @property
    def precision(self) -> float | None:
        return self.correct / self.given if self.given else None

    @property
    def recall(self) -> float | None:
        return self.correct / self.words if self.words else None

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall, 2 × correct / (words + given)."""
        return 2 * self.correct / (self.words + self.given) if self.words + self.given else None


@dataclass(frozen=True)
class Confusion:
    """A confusion matrix: counts[i, j] words that should have the label i were given j."""

    labels: list[str]
    counts: np.ndarray

    @classmethod
    def count(cls, right: Sequence[str], given: Sequence[str]) -> "Confusion":
        labels = sorted({*right, *given})
        numbers = {label: number for number, label in enumerate(labels)}
        places = [numbers[a] * len(labels) + numbers[b] for a, b in zip(right, given, strict=True)]
        counts = np.bincount(np.array(places, np.int64), minlength=len(labels) ** 2)
        return cls(labels, counts.reshape(len(labels), len(labels)))

    @property
    def all(self) -> Part:
        return Part(int(self.counts.sum()), int(self.counts.trace()))

    @property
    def accuracy(self) -> float:
        """The share of words labelled correctly; there must be at least one word."""
        return int(self.counts.trace()) / int(self.counts.sum())

    def by_label(self) -> list[Label]:
        """The counts of every label, in alphabetical order."""
        columns = (self.counts.sum(1), self.counts.sum(0), self.counts.diagonal())
        numbers = zip(*(column.tolist() for column in columns), strict=True)
        return [Label(label, *each) for label, each in zip(self.labels, numbers, strict=True)]

    def mistakes(self, most: int) -> list[tuple[str, str, int]]:
        """The most frequent mistakes: (the correct label, the one given, how often)."""
        wrong = self.counts - np.diag(self.counts.diagonal())
        order = np.argsort(-wrong, axis=None, kind="stable")[:most]
        places = [divmod(int(place), len(self.labels)) for place in order]
        return [(self.labels[a], self.labels[b], int(wrong[a, b])) for a, b in places if wrong[a, b]]
