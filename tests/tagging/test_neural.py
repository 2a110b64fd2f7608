"""A trained tagger: sentences of all lengths at once are each as if read alone, in the order they came in."""

from dataclasses import replace

import numpy as np
import torch

from chainrule.models.tagger import SIZES, Model
from chainrule.tagging import neural
from chainrule.tagging.case import Sightings
from chainrule.tagging.neural import NeuralTagger
from chainrule.tagging.tagset import TagSet
from tests.tagging.test_reasons import Numbers

SENTENCES = [["The", "cats", "sleep"], ["Go"], ["The", "cats"], ["a", "b", "c", "d", "e"], ["cats"]]


def test_sentences_together_are_as_each_alone(monkeypatch):
    monkeypatch.setattr(neural, "WORDS_AT_ONCE", 6)
    torch.manual_seed(0)
    model = Model(replace(SIZES["tiny"], columns=(2, 3)), 4, 3).train()
    tagger = NeuralTagger(model, Numbers(), TagSet(("upos", "xpos"), (("A", "B"), ("x", "y", "z")), 1), Sightings())
    together = tagger.probabilities(SENTENCES)
    for words, columns in zip(SENTENCES, together, strict=True):
        (alone,) = tagger.probabilities([words])
        for ours, theirs in zip(columns, alone, strict=True):
            assert ours.shape[0] == len(words)
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
            np.testing.assert_allclose(ours.sum(1), 1, atol=1e-6)
    assert tagger.tag(SENTENCES) == [
        {"upos": ["AB"[number] for number in columns[0].argmax(1)]} for columns in together
    ]  # fmt: skip
    assert model.training  # as it was
    assert tagger.probabilities([]) == []
