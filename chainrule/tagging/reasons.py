"""Why a word has its tag: how much log p(tag) falls when a part of the input is left out.

Each word of the sentence is left out in turn (it becomes an unknown word without letters), and so is each feature of
the word itself: its vector, its beginnings, its endings, the letters within, its case.
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
    """The tags that a word may have, and what speaks for the best of them."""

    word: str
    tags: list[tuple[str, float]]  # the most probable, with their probabilities
    words: list[float]  # the nats that the best tag loses without each word of the sentence, in their order
    own: dict[str, float]  # and without each feature of the word itself, by name


@dataclass(frozen=True)
class TaggerInput:
    """One sentence as a tagger reads it."""

    ids: np.ndarray
    parts: np.ndarray  # (words, parts)
    cases: np.ndarray  # (words, cases)

    def copy(self) -> "TaggerInput":
        return TaggerInput(self.ids.copy(), self.parts.copy(), self.cases.copy())


def explain(tagger: NeuralTagger, words: Sequence[str], column: str) -> list[Reason]:
    """The reason for every word's tag. A sentence of n words is read 6 n + 1 times, in one batch."""
    at = tagger.tagset.columns.index(column)
    whole = TaggerInput(
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


def _without_word(whole: TaggerInput, place: int, unknown: int) -> TaggerInput:
    fewer = whole.copy()
    fewer.ids[place], fewer.parts[place], fewer.cases[place] = unknown, NONE, NONE
    return fewer


def _without_own(whole: TaggerInput, place: int, word: str, what: str, unknown: int) -> TaggerInput:
    """The sentence with one of OWN left out; the parts of a word are in the order of spelling.parts."""
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
