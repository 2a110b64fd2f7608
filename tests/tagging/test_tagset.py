"""Which tags there are, and sentences as numbers of them."""

from dataclasses import replace

import numpy as np
import pytest

from chainrule.data import conllu
from chainrule.errors import UserError
from chainrule.models.contract import IGNORE
from chainrule.tagging.tagset import TagSet
from tests.tagging.treebank import row

TEXT = "\n".join([row(1, "a", "X", "z"), row(2, "b", "W", "_"), "", row(1, "c", "_", "y"), ""])


@pytest.fixture
def sentences() -> list[conllu.Sentence]:
    return list(conllu.parse(TEXT, "a"))


def test_tags_are_sorted_and_columns_without_any_left_out(sentences):
    found = TagSet.find(sentences, ["upos", "feats"], ["xpos", "upos"])
    assert found == TagSet(("upos", "xpos"), (("W", "X"), ("y", "z")), shown=1, together=((0,), (1,)))
    assert (found.sizes, found.purpose) == ((2, 2), ("upos",))


def test_words_without_a_tag_are_ignored(sentences):
    tagset = TagSet.find(sentences, ["upos", "xpos"], [])
    assert tagset.numbers(sentences[0]).tolist() == [[1, 1], [0, IGNORE]]
    assert tagset.numbers(sentences[1]).tolist() == [[IGNORE, 0]]


def test_tags_are_chosen_that_some_word_has_had_together():
    text = "\n".join([row(1, "a", "N", "nn"), row(2, "b", "V", "vb"), row(3, "c", "V", "_"), ""])
    tagset = TagSet.find(list(conllu.parse(text, "a")), ["upos", "xpos"], [])
    assert tagset.together == ((0, 0), (1, 1))
    upos, xpos = np.array([[0.6, 0.4], [0.9, 0.1]]), np.array([[0.1, 0.9], [0.2, 0.8]])
    assert tagset.choose([upos, xpos]).tolist() == [[1, 1], [0, 0]]  # .4 × .9 > .6 × .1, and .9 × .2 > .1 × .8
    assert replace(tagset, together=()).choose([upos, xpos]).tolist() == [[0, 1], [0, 1]]


def test_text_without_tags_is_refused(sentences):
    with pytest.raises(UserError, match="no word has a tag in the columns feats"):
        TagSet.find(sentences, ["feats"], ["upos"])


def test_saved_is_loaded_and_damage_is_told(sentences, tmp_path):
    tagset = TagSet.find(sentences, ["upos"], ["xpos"])
    tagset.save(tmp_path / "tags.json")
    assert TagSet.load(tmp_path / "tags.json") == tagset
    (tmp_path / "tags.json").write_text("{}")
    with pytest.raises(UserError, match=r"tags\.json' is missing or damaged"):
        TagSet.load(tmp_path / "tags.json")
