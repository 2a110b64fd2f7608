"""The hidden Markov model against all ways to tag a sentence, one by one."""

from itertools import product

import numpy as np
import pytest

from chainrule.tagging.hmm import HiddenMarkovTagger, count_transitions, most_probable, total

WORDS = ["the cat sat on the mat", "cats eat", "on the mat the cat eats", "sat"]
TAGS = ["D N V A D N", "N V", "A D N D N V", "V"]


@pytest.fixture(scope="module")
def tagger() -> HiddenMarkovTagger:
    return HiddenMarkovTagger([each.split() for each in WORDS], [each.split() for each in TAGS])


def score(path: tuple[int, ...], emissions: np.ndarray, transitions: np.ndarray) -> float:
    """The chain rule, word by word, with the end before and after."""
    end = emissions.shape[1]
    steps = [end, end, *path, end]
    moves = sum(float(transitions[steps[i], steps[i + 1], steps[i + 2]]) for i in range(len(steps) - 2))
    return moves + sum(float(emissions[i, tag]) for i, tag in enumerate(path))


@pytest.mark.parametrize("length", [1, 2, 3, 5])
@pytest.mark.parametrize("tags", [2, 4])
def test_viterbi_is_the_best_and_forward_the_sum_of_all_paths(length: int, tags: int):
    generator = np.random.default_rng(10 * length + tags)
    for _ in range(5):
        transitions = np.log(generator.dirichlet(np.ones(tags + 1), (tags + 1, tags + 1)))
        emissions = generator.normal(size=(length, tags)) * 3
        scores = {path: score(path, emissions, transitions) for path in product(range(tags), repeat=length)}
        assert tuple(most_probable(emissions, transitions)) == max(scores, key=scores.__getitem__)
        assert total(emissions, transitions) == pytest.approx(np.logaddexp.reduce(list(scores.values())))


def test_paths_that_cannot_be_are_not_taken():
    transitions = np.log(np.full((3, 3, 3), 1 / 3))
    transitions[:, 0, 0] = -np.inf
    emissions = np.array([[5.0, 0.0], [5.0, 0.0], [5.0, 0.0]])
    assert list(most_probable(emissions, transitions)) == [0, 1, 0]


def test_transitions_sum_to_one_and_follow_witten_bell_by_hand():
    table = np.exp(count_transitions([["a", "b"], ["a", "b"], ["a"]], ["a", "b"]))
    assert table.sum(-1) == pytest.approx(np.ones((3, 3)), rel=1e-5)
    words = np.array([3, 2, 3]) / 11 + 3 / 11 / 3  # (c + T / V) / (C + T) with C = 8, T = 3, V = 3
    after_end = (np.array([3, 0, 0]) + 1 * words) / 4
    assert table[0, 2] == pytest.approx(after_end, rel=1e-5)  # before a beginning nothing counts
    after_a = (np.array([0, 2, 1]) + 2 * words) / 5
    after_end_a = (np.array([0, 2, 1]) + 2 * after_a) / 5
    assert table[2, 0] == pytest.approx(after_end_a, rel=1e-5)


def test_sentences_with_gaps_do_not_teach_what_follows():
    assert np.array_equal(count_transitions([["a"], ["b", "_"]], ["a", "b"]), count_transitions([["a"]], ["a", "b"]))


def test_emissions_are_what_the_word_says_beside_what_is_known_without_it(tagger: HiddenMarkovTagger):
    lexicon = tagger.lexicon
    expected = np.log(lexicon.probabilities("cat") / lexicon.frequencies)
    assert tagger.emissions(["on", "cat"])[1] == pytest.approx(expected)


def test_context_decides_what_a_word_alone_leaves_open(tagger: HiddenMarkovTagger):
    assert tagger.tag("the mat sat on the cat".split()) == "D N V A D N".split()
    sentences = [["the", "fish"], ["the", "dog"], ["we", "fish"], ["we", "eat"]]
    open_word = HiddenMarkovTagger(sentences, [["D", "N"], ["D", "N"], ["P", "V"], ["P", "V"]])
    assert open_word.tag(["the", "fish"]) == ["D", "N"]
    assert open_word.tag(["we", "fish"]) == ["P", "V"]


def test_probability_of_words_by_hand(tagger: HiddenMarkovTagger):
    words = ["cat", "sat"]
    emissions = tagger.emissions(words)
    paths = product(range(len(tagger.tags)), repeat=2)
    expected = np.logaddexp.reduce([score(path, emissions, tagger.transitions) for path in paths])
    assert tagger.log_probability(words) == pytest.approx(expected)
