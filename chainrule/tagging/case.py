"""Features of a word's capitals and signs, as names that are then hashed.

'Walk' in 'Walk on , John !' has five: its shape Xx; the kinds of its first five letters, Xxxx; the shape together with
its place, first in the sentence or later; the shape together with the share of capitalised words, as names look
different in a headline; and how often the training text has the word in lower case and with capitals.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from chainrule.errors import UserError
from chainrule.tagging.lexicon import kinds, shape

COUNT = 5  # features of each word
LETTERS = 5
SHARES = 4  # steps between a sentence without capitals and one of capitals alone
OFTEN = (1, 2, 5, 20)  # the counts at which a new bucket begins


class Sightings:
    """How often the training text has each word in lower case, and how often with capitals."""

    def __init__(self, sentences: Iterable[Sequence[str]] = ()):
        self.small: Counter[str] = Counter()
        self.capital: Counter[str] = Counter()
        for word in (word for words in sentences for word in words):
            (self.small if word == word.lower() else self.capital)[word.lower()] += 1

    def name(self, word: str, is_learned: bool) -> str:
        """The bucket of each count and the word's own case; a word that is being learned from does not count itself."""
        lower = word.lower()
        is_small = word == lower
        small = self.small[lower] - (is_learned and is_small)
        capital = self.capital[lower] - (is_learned and not is_small)
        return f"{_step(small)}{_step(capital)} {'x' if is_small else 'X'}"

    def save(self, path: Path) -> None:
        path.write_text(json.dumps([self.small, self.capital], ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Sightings":
        found = cls()
        try:
            small, capital = json.loads(path.read_text(encoding="utf-8"))
            found.small, found.capital = Counter(small), Counter(capital)
        except (OSError, ValueError, TypeError) as error:
            raise UserError(f"'{path}' is missing or damaged ({error}); train the run again") from None
        return found


def cases(words: Sequence[str], sightings: Sightings, is_learned: bool = False) -> list[list[str]]:
    """The COUNT features of every word of a sentence."""
    capitals = f"{_share(words, _is_capital)}{_share(words, _is_shouted)}"
    found = []
    for place, word in enumerate(words):
        outline = shape(word)
        where = "first" if place == 0 else "later"
        names = [f"={outline}", f"{kinds(word[:LETTERS])}…", f"{where} {outline}", f"{capitals} {outline}"]
        found.append([*names, f"seen {sightings.name(word, is_learned)}"])
    return found


def _step(count: int) -> int:
    return sum(count >= each for each in OFTEN)


def _is_capital(word: str) -> bool:
    return word[0].isupper()


def _is_shouted(word: str) -> bool:
    return len(word) > 1 and word.isupper()


def _share(words: Sequence[str], holds: Callable[[str], bool]) -> int:
    """The share of the words beginning with a letter for which this holds, as a step from 0 to SHARES - 1."""
    spelled = [word for word in words if word[0].isalpha()]
    return min(SHARES * sum(map(holds, spelled)) // max(len(spelled), 1), SHARES - 1)
