"""Batches of sentences as a tagger reads them: ids of words, features of their spelling, and the length of each row."""

from collections.abc import Sequence

import numpy as np

from chainrule.data.batches import TrainingBatch
from chainrule.models.contract import IGNORE
from chainrule.tagging.case import Sightings
from chainrule.tagging.spelling import spell
from chainrule.text.base import Tokenizer


class Vocabulary:
    """The ids of a closed tokenizer's words, each looked up whole; a space within a word counts as _."""

    def __init__(self, tokenizer: Tokenizer):
        assert tokenizer.unknown is not None
        self.numbers = tokenizer.backend.get_vocab(with_added_tokens=False)
        self.unknown, self.padding = tokenizer.unknown, tokenizer.eos

    def ids(self, words: Sequence[str]) -> np.ndarray:
        return np.array([self.numbers.get(spelled(word), self.unknown) for word in words], np.int64)


def spelled(word: str) -> str:
    return "_".join(word.split())


def pad(rows: Sequence[np.ndarray], filling: int) -> np.ndarray:
    """Arrays (time, ...) of several lengths as one (rows, longest time, ...), with `filling` after the shorter ones."""
    time = max(map(len, rows))
    padded = np.full((len(rows), time, *rows[0].shape[1:]), filling, np.int64)
    for at, row in enumerate(rows):
        padded[at, : len(row)] = row
    return padded


def collate(
    sentences: Sequence[Sequence[str]],
    ids: Sequence[np.ndarray],
    tags: Sequence[np.ndarray],
    padding: int,
    sightings: Sightings,
) -> TrainingBatch:
    """A batch to learn from: inputs (batch, time), targets (batch, time, columns)."""
    lengths = np.array([len(words) for words in sentences], np.int64)
    spelled = spell(sentences, int(lengths.max()), sightings, is_learned=True)
    return TrainingBatch(pad(ids, padding), pad(tags, IGNORE), condition={**spelled, "lengths": lengths})
