"""p(tag | word) by counting, for seen and unseen words, by interpolating from any word up to the word itself.

    p(t | rung) = (c(rung, t) + κ p(t | rung below)) / (c(rung) + κ)

The rungs of "Walking": any word, its shape "Xx", that shape with "…g", "…ng", "…ing" and so on, "walking" in any case,
and last the word itself. Shapes and endings are counted over rare words alone, as these are most like unseen ones
(Samuelsson 1993; Brants 2000).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from chainrule.data.conllu import NOTHING

RARE = 10  # a word seen at most so often is counted for the shapes and endings of unseen words
LONGEST_ENDING = 5
KAPPA = 1.0  # κ: how many occurrences the rung below is worth
KINDS = (("X", str.isupper), ("x", str.islower), ("d", str.isdigit))

Rung = tuple[str, ...]


def kinds(word: str) -> str:
    """'Walking' -> 'Xxxxxxx', '1990s' -> 'ddddx': letters and digits by kind, other signs as they are."""
    return "".join(next((kind for kind, holds in KINDS if holds(character)), character) for character in word)


def shape(word: str) -> str:
    """'Walking' -> 'Xx', 'U.S.' -> 'X.X.', '1990s' -> 'dx': the kinds, with runs of the same kind written once."""
    found = kinds(word)
    return "".join(kind for at, kind in enumerate(found) if at == 0 or kind != found[at - 1])


def guesses(word: str) -> list[Rung]:
    """The rungs that unseen words have too: the shape, and the shape with longer and longer endings."""
    outline, lower = shape(word), word.lower()
    lengths = range(1, min(LONGEST_ENDING, len(lower)) + 1)
    return [(outline,), *[(outline, lower[-length:]) for length in lengths]]


def sightings(word: str) -> list[Rung]:
    """The rungs that only seen words have: the word in any case, and the word as it is written."""
    return [("in any case", word.lower(), ""), ("the word", word, "")]


class Lexicon:
    """The counts of every rung, and the tag probabilities that they give a word."""

    def __init__(self, sentences: Iterable[Sequence[str]], tags: Iterable[Sequence[str]]):
        pairs = Counter(
            (word, tag)
            for words, labels in zip(sentences, tags, strict=True)
            for word, tag in zip(words, labels, strict=True)
            if tag != NOTHING
        )
        self.tags = sorted({tag for _, tag in pairs})
        totals: Counter[str] = Counter()
        for (word, _), count in pairs.items():
            totals[word] += count
        numbers = {tag: number for number, tag in enumerate(self.tags)}
        self.counts: dict[Rung, np.ndarray] = defaultdict(lambda: np.zeros(len(numbers)))
        for (word, tag), count in pairs.items():
            for rung in [(), *(guesses(word) if totals[word] <= RARE else []), *sightings(word)]:
                self.counts[rung][numbers[tag]] += count
        self._known: dict[str, np.ndarray] = {}

    @property
    def frequencies(self) -> np.ndarray:
        """p(tag)."""
        frequencies: np.ndarray = self.counts[()] / self.counts[()].sum()
        return frequencies

    def probabilities(self, word: str) -> np.ndarray:
        """p(tag | word)."""
        if word not in self._known:
            found = self.frequencies
            for rung in guesses(word) + sightings(word):
                if rung in self.counts:
                    counts = self.counts[rung]
                    found = (counts + KAPPA * found) / (counts.sum() + KAPPA)
            self._known[word] = found
        return self._known[word]
