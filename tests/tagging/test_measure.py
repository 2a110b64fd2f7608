"""Accuracies of taggers by hand, and tags that cannot be right."""

import pytest

from chainrule.data import conllu
from chainrule.errors import UserError
from chainrule.evaluation.accuracy import Part
from chainrule.tagging.measure import HIDDEN_MARKOV, MAJORITY, check_tags, measure, measure_baselines
from tests.tagging.treebank import row, write


def parse(*rows: str) -> list[conllu.Sentence]:
    return list(conllu.parse("\n".join(rows) + "\n", "dev.conllu"))


SENTENCES = parse(row(1, "a", "X", "_"), row(2, "b", "Y", "_"), "", row(1, "c", "_", "_"), row(2, "d", "X", "_"))


def test_words_without_a_tag_do_not_count_and_unseen_ones_are_told_apart():
    found = measure("upos", SENTENCES, [["X", "X"], ["Y", "X"]], seen={"a", "b"})
    assert found.confusion.all == Part(words=3, correct=2)
    assert found.unseen == Part(words=1, correct=1)


def test_baselines_are_measured_on_the_same_words():
    train, dev = (list(conllu.parse(write(count, seed), "a")) for count, seed in ((80, 0), (30, 1)))
    seen = {word for sentence in train for word in sentence.words}
    found = measure_baselines("upos", train, dev, seen)
    words = sum(len(sentence.words) for sentence in dev)
    assert found[MAJORITY].confusion.all.words == found[HIDDEN_MARKOV].confusion.all.words == words
    assert found[HIDDEN_MARKOV].confusion.all.accuracy == 1.0  # what stands before tells 'the fish' from 'we fish'
    assert 0.8 < found[MAJORITY].confusion.all.accuracy < 1.0


def test_a_hidden_markov_model_of_too_many_tags_is_left_out(monkeypatch):
    monkeypatch.setattr("chainrule.tagging.measure.MOST_TAGS", 1)
    assert list(measure_baselines("upos", SENTENCES, SENTENCES, set())) == [MAJORITY]


def test_tags_that_training_never_had_are_told_with_their_line():
    assert check_tags(SENTENCES, "upos", ["X", "Y"]) == []
    (note,) = check_tags(SENTENCES, "upos", ["X"])
    assert note.startswith(
        "1 of 3 words have a tag in column upos that training never had (Y; the first at 'dev.conllu' line 2)"
    )
    (note,) = check_tags(SENTENCES, "xpos", ["X"])
    assert note == "no word has a tag in column xpos, so it was not measured"


def test_another_set_of_tags_is_refused():
    with pytest.raises(UserError, match=r"'dev.conllu' line 1 has the upos 'X', and like all the others it is none"):
        check_tags(SENTENCES, "upos", ["A"])
