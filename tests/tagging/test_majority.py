"""The most frequent tag of a word, by hand."""

from chainrule.tagging.majority import MajorityTagger

SENTENCES = [["the", "run"], ["the", "run"], ["run", "the", "fish"], ["fish", "swim"], ["swim"]]
TAGS = [["DET", "NOUN"], ["DET", "NOUN"], ["VERB", "DET", "NOUN"], ["VERB", "VERB"], ["_"]]


def test_each_word_gets_the_tag_it_has_most_often():
    tagger = MajorityTagger(SENTENCES, TAGS)
    assert tagger.tag(["run", "the", "swim"]) == ["NOUN", "DET", "VERB"]


def test_ties_go_to_the_tag_that_is_more_frequent_in_all_then_to_the_first_by_name():
    assert MajorityTagger(SENTENCES, TAGS).tag(["fish"]) == ["NOUN"]  # once each; NOUN 3, VERB 3, DET 3
    more_verbs = MajorityTagger([*SENTENCES, ["go"]], [*TAGS, ["VERB"]])
    assert more_verbs.tag(["fish"]) == ["VERB"]


def test_unseen_words_get_the_most_frequent_tag_of_all():
    assert MajorityTagger([*SENTENCES, ["go"]], [*TAGS, ["VERB"]]).tag(["xyz"]) == ["VERB"]


def test_words_without_a_tag_are_not_counted():
    assert MajorityTagger([["a"], ["a", "b"]], [["_"], ["X", "Y"]]).frequencies == {"X": 1, "Y": 1}
