"""Why a word has its tag: what log p(tag) loses where something is not there.

Each word of the sentence is taken away in turn (it becomes an unknown word without letters), and so is what a word has
of its own: its vector, its beginnings, its endings, the letters within, its shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chainrule.tagging.neural import NeuralTagger
from chainrule.tagging.spelling import LONGEST, NONE, spell

SHOWN_TAGS = 3
OWN = ("the word", "its beginning", "its ending", "its shape", "its inside")


@dataclass(frozen=True)
class Reason:
    word: str
    tags: list[tuple[str, float]]  # the most probable, with their probabilities
    words: list[float]  # the nats that the best tag loses without each word of the sentence
    own: dict[str, float]  # and without each thing that the word has of its own


def explain(tagger: NeuralTagger, words: Sequence[str], column: str) -> list[Reason]:
    """A reason for every word. One sentence is read 6 times as often as it has words."""
    at = tagger.tagset.columns.index(column)
    ids, parts = tagger.vocabulary.ids(words), spell([words], len(words))[0]
    variants = [(ids, parts)]
    variants += [_without_word(ids, parts, place, tagger.vocabulary.unknown) for place in range(len(words))]
    for place, word in enumerate(words):
        variants += [_without_own(ids, parts, place, word, what, tagger.vocabulary.unknown) for what in OWN]
    found = tagger.read_rows([each for each, _ in variants], np.stack([each for _, each in variants]))[at]
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


def _without_word(ids: np.ndarray, parts: np.ndarray, place: int, unknown: int) -> tuple[np.ndarray, np.ndarray]:
    ids, parts = ids.copy(), parts.copy()
    ids[place], parts[place] = unknown, NONE
    return ids, parts


def _without_own(
    ids: np.ndarray, parts: np.ndarray, place: int, word: str, what: str, unknown: int
) -> tuple[np.ndarray, np.ndarray]:
    """The parts of a word stand in the order of spelling.parts."""
    ids, parts = ids.copy(), parts.copy()
    ends = min(LONGEST, len(word.lower()))
    whole = 1 + 2 * ends
    places = {
        "the word": [whole],
        "its beginning": range(1, 1 + ends),
        "its ending": range(1 + ends, whole),
        "its shape": [0],
        "its inside": range(whole + 1, parts.shape[1]),
    }
    parts[place, list(places[what])] = NONE
    if what == "the word":
        ids[place] = unknown
    return ids, parts
