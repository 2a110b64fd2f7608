"""Reasons for tags, against reading each changed sentence by itself."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from chainrule.models.tagger import SIZES, Model
from chainrule.tagging.case import Sightings
from chainrule.tagging.collate import Vocabulary
from chainrule.tagging.neural import NeuralTagger
from chainrule.tagging.reasons import OWN, explain
from chainrule.tagging.spelling import parts, spell
from chainrule.tagging.tagset import TagSet

WORDS = ["The", "cats", "sleep"]


class Numbers(Vocabulary):
    def __init__(self):
        self.numbers, self.unknown, self.padding = {"The": 1, "cats": 2}, 0, 3


@pytest.fixture
def tagger() -> NeuralTagger:
    torch.manual_seed(0)
    model = Model(replace(SIZES["tiny"], columns=(2, 3)), 4, 3)
    for parameter in model.parameters():  # also those that begin as nothing
        parameter.data += 0.3 * torch.randn_like(parameter)
    return NeuralTagger(model, Numbers(), TagSet(("upos", "xpos"), (("A", "B"), ("x", "y", "z")), 2), Sightings())


def probability(tagger: NeuralTagger, ids: list[int], spelled: dict[str, np.ndarray], place: int) -> np.ndarray:
    condition = {name: torch.from_numpy(each) for name, each in spelled.items()}
    condition["lengths"] = torch.tensor([len(ids)])
    with torch.no_grad():
        return tagger.model.eval().logits(torch.tensor([ids]), condition)[1][0, place].softmax(0).numpy()


def test_tags_and_what_they_lose_without_each_word(tagger: NeuralTagger):
    ids, spelled = [1, 2, 0], spell([WORDS], 3, Sightings())
    for place, reason in enumerate(explain(tagger, WORDS, "xpos")):
        expected = probability(tagger, ids, spelled, place)
        best = int(expected.argmax())
        assert reason.tags[0] == ("xyz"[best], pytest.approx(float(expected[best]), rel=1e-5))
        for other in range(3):
            changed, fewer = list(ids), {name: each.copy() for name, each in spelled.items()}
            changed[other] = fewer["parts"][0, other] = fewer["cases"][0, other] = 0
            lost = np.log(expected[best] / probability(tagger, changed, fewer, place)[best])
            assert reason.words[other] == pytest.approx(float(lost), abs=1e-5)


def test_what_a_word_has_of_its_own(tagger: NeuralTagger):
    """'cats' has four beginnings, four endings, itself, what is within, and its case."""
    ids, spelled = [1, 2, 0], spell([WORDS], 3, Sightings())
    named = parts("cats")
    own = {
        "its beginning": [at for at, part in enumerate(named) if part.endswith("…")],
        "its ending": [at for at, part in enumerate(named) if part.startswith("…")],
        "the word": [named.index("<cats>=")],
    }
    own["its inside"] = [at for at in range(len(named)) if not any(at in each for each in own.values())]
    assert [named[at] for at in own["its inside"]] == ["<ca", "cat", "ats", "ts>", "<cat", "cats", "ats>"]
    before = probability(tagger, ids, spelled, 1)
    best = int(before.argmax())
    found = explain(tagger, WORDS, "xpos")[1].own
    assert set(found) == set(OWN)
    own["its case"] = []
    for what, places in own.items():
        fewer = {name: each.copy() for name, each in spelled.items()}
        fewer["parts"][0, 1, places] = 0
        if what == "its case":
            fewer["cases"][0, 1] = 0
        changed = [1, 0, 0] if what == "the word" else ids
        lost = np.log(before[best] / probability(tagger, changed, fewer, 1)[best])
        assert found[what] == pytest.approx(float(lost), abs=1e-5)
