"""A trained tagger together with the words and tags it knows: sentences in, probabilities and tags out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from chainrule.data.buckets import group_by_size
from chainrule.tagging.case import Sightings
from chainrule.tagging.collate import Vocabulary, pad
from chainrule.tagging.spelling import spell
from chainrule.tagging.tagset import TagSet

if TYPE_CHECKING:
    from chainrule.models.tagger import Model

WORDS_AT_ONCE = 4096


class NeuralTagger:
    """Tags sentences with a model of models/tagger.py."""

    def __init__(self, model: "Model", vocabulary: Vocabulary, tagset: TagSet, sightings: Sightings):
        self.model, self.vocabulary, self.tagset, self.sightings = model, vocabulary, tagset, sightings

    def tag(self, sentences: Sequence[Sequence[str]]) -> list[dict[str, list[str]]]:
        """The most probable tags of each sentence's words, by column; only combinations that training had are given."""
        named = list(zip(self.tagset.purpose, self.tagset.tags, strict=False))
        chosen = [self.tagset.choose(found) for found in self.probabilities(sentences)]
        return [
            {name: [tags[number] for number in each] for (name, tags), each in zip(named, numbers.T, strict=True)}
            for numbers in chosen
        ]

    def probabilities(self, sentences: Sequence[Sequence[str]]) -> list[list[np.ndarray]]:
        """p(tag) of each sentence and column: (words, tags). Sentences of similar length are read in one batch."""
        found: dict[int, list[np.ndarray]] = {}
        for group in group_by_size([len(words) for words in sentences], WORDS_AT_ONCE):
            found |= zip(group, self._read([sentences[index] for index in group]), strict=True)
        return [found[index] for index in range(len(sentences))]

    def _read(self, sentences: list[Sequence[str]]) -> list[list[np.ndarray]]:
        ids = [self.vocabulary.ids(words) for words in sentences]
        columns = self.read_rows(ids, spell(sentences, max(map(len, sentences)), self.sightings))
        return [[column[row, : len(words)] for column in columns] for row, words in enumerate(sentences)]

    @torch.no_grad()
    def read_rows(self, ids: Sequence[np.ndarray], spelled: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Ids of words and the features that `spell` gives -> p(tag) (rows, time, tags) for each column."""
        was_training = self.model.training
        self.model.eval()
        lengths = torch.tensor([len(each) for each in ids])
        inputs = torch.from_numpy(pad(ids, self.vocabulary.padding))
        hashes = {name: torch.from_numpy(each) for name, each in spelled.items()}
        logits = self.model.logits(inputs, {**hashes, "lengths": lengths})
        self.model.train(was_training)
        return [each.softmax(-1).numpy() for each in logits]
