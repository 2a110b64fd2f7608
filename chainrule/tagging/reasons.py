"""Why a word has its tag: what log p(tag) loses where something is not there.

Each word of the sentence is taken away in turn (it becomes an unknown word without letters), and so is what a word has
of its own: its vector, its beginnings, its endings, the letters within, its case.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chainrule.tagging.neural import NeuralTagger
from chainrule.tagging.spelling import LONGEST, NONE, spell

SHOWN_TAGS = 3
OWN = ("the word", "its beginning", "its ending", "its case", "its inside")


@dataclass(frozen=True)
class Reason:
    word: str
    tags: list[tuple[str, float]]  # the most probable, with their probabilities
    words: list[float]  # the nats that the best tag loses without each word of the sentence
    own: dict[str, float]  # and without each thing that the word has of its own


@dataclass(frozen=True)
class Read:
    """A sentence as a tagger reads it."""

    ids: np.ndarray
    parts: np.ndarray  # (words, parts)
    cases: np.ndarray  # (words, cases)

    def copy(self) -> "Read":
        return Read(self.ids.copy(), self.parts.copy(), self.cases.copy())


def explain(tagger: NeuralTagger, words: Sequence[str], column: str) -> list[Reason]:
    """A reason for every word. One sentence is read 6 times as often as it has words."""
    at = tagger.tagset.columns.index(column)
    whole = Read(
        tagger.vocabulary.ids(words), *(each[0] for each in spell([words], len(words), tagger.sightings).values())
    )
    variants = [whole]
    variants += [_without_word(whole, place, tagger.vocabulary.unknown) for place in range(len(words))]
    for place, word in enumerate(words):
        variants += [_without_own(whole, place, word, what, tagger.vocabulary.unknown) for what in OWN]
    spelled = {name: np.stack([getattr(each, name) for each in variants]) for name in ("parts", "cases")}
    found = tagger.read_rows([each.ids for each in variants], spelled)[at]
    logs = np.log(np.maximum(found, 1e-30))  # (variants, words, tags)
    reasons = []
    for place, word in enumerate(words):
        order = np.argsort(-found[0, place], kind="stable")
        lost = logs[0, place, order[0]] - logs[:, place, order[0]]
        first = 1 + len(words) + place * len(OWN)
        tags = [(tagger.tagset.tags[at][number], float(found[0, place, number])) for number in order[:SHOWN_TAGS]]
        own = dict(zip(OWN, map(float, lost[first : first + len(OWN)]), strict=True))
        reasons.append(Reason(word, tags, [float(each) for each in lost[1 : 1 + len(words)]], own))
    return reasons


def _without_word(whole: Read, place: int, unknown: int) -> Read:
    fewer = whole.copy()
    fewer.ids[place], fewer.parts[place], fewer.cases[place] = unknown, NONE, NONE
    return fewer


def _without_own(whole: Read, place: int, word: str, what: str, unknown: int) -> Read:
    """The parts of a word stand in the order of spelling.parts."""
    fewer = whole.copy()
    ends = min(LONGEST, len(word.lower()))
    itself = 2 * ends
    places = {
        "the word": [itself],
        "its beginning": range(ends),
        "its ending": range(ends, itself),
        "its case": [],
        "its inside": range(itself + 1, fewer.parts.shape[1]),
    }
    fewer.parts[place, list(places[what])] = NONE
    if what == "the word":
        fewer.ids[place] = unknown
    if what == "its case":
        fewer.cases[place] = NONE
    return fewer
