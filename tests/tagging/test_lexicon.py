"""p(tag | word) along the ladder, by hand."""

import numpy as np
import pytest

from chainrule.tagging.lexicon import Lexicon, guesses, shape


@pytest.mark.parametrize(
    ("word", "outline"), [("Walking", "Xx"), ("U.S.", "X.X."), ("1990s", "dx"), ("iPhone", "xXx"), ("--", "-")]
)
def test_shapes(word: str, outline: str):
    assert shape(word) == outline


def test_endings_grow_to_five_letters_and_go_with_the_shape():
    endings = ["g", "ng", "ing", "king", "lking"]
    assert guesses("Walking") == [("Xx",), *[("Xx", ending) for ending in endings]]
    assert guesses("A") == [("X",), ("X", "a")]


def test_an_unseen_word_by_its_ending():
    """'bat' shares the shape x and the ending 'at' with cat (N) and sat (V, V); nothing more is known of it."""
    lexicon = Lexicon([["cat", "sat", "sat"]], [["N", "V", "V"]])
    found = np.array([1, 2]) / 3
    for _ in ("shape x", "ending t", "ending at"):
        found = (np.array([1, 2]) + found) / 4
    assert lexicon.probabilities("bat") == pytest.approx(found)


def test_a_seen_word_by_its_case_and_itself():
    """'Cat' is seen as a name once; in any case as N once and as P once."""
    lexicon = Lexicon([["cat", "Cat"]], [["N", "P"]])
    found = np.array([0.5, 0.5])
    for _ in ("shape Xx", "t", "at", "cat"):
        found = (np.array([0, 1]) + found) / 2
    found = (np.array([1, 1]) + found) / 3
    found = (np.array([0, 1]) + found) / 2
    assert lexicon.probabilities("Cat") == pytest.approx(found)


def test_frequent_words_say_nothing_about_unseen_ones():
    lexicon = Lexicon([["the"] * 11 + ["cat"]], [["D"] * 11 + ["N"]])
    assert lexicon.tags == ["D", "N"]
    found = np.array([11, 1]) / 12
    found = (np.array([0, 1]) + found) / 2  # the shape x, of rare words: cat alone
    assert lexicon.probabilities("be") == pytest.approx(found)


def test_probabilities_sum_to_one():
    lexicon = Lexicon([["cat", "Sat", "on"]], [["N", "V", "A"]])
    for word in ("cat", "Cat", "mat", "Q", "1"):
        assert lexicon.probabilities(word).sum() == pytest.approx(1)
        assert lexicon.probabilities(word).min() > 0
