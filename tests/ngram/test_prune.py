import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.errors import UserError
from chainrule.models.ngram import Config, Model
from chainrule.ngram.query import distributions

from .corpora import EOS, VOCABULARY, documents, stream


@pytest.mark.parametrize("smoothing", ["modified-kneser-ney", "witten-bell", "katz"])
@given(texts=documents, thresholds=st.sampled_from([(0, 1), (0, 0, 1), (0, 1, 2), (0, 100)]))
@settings(max_examples=40, deadline=None)
def test_a_pruned_model_still_sums_to_one_and_keeps_only_frequent_ngrams(smoothing, texts, thresholds):
    config = Config(order=3, smoothing=smoothing, prune=thresholds)
    model = Model(config, VOCABULARY, EOS).fit([stream(texts)])
    trie = model.trie
    for k in (2, 3):
        threshold = thresholds[min(k, len(thresholds)) - 1]
        assert (trie.count[trie.level(k)] > threshold).all()
    for node in range(1 + VOCABULARY, len(trie.word)):
        assert trie.ngram(int(trie.suffix[node])) == trie.ngram(node)[1:]
    contexts = np.random.default_rng(0).integers(0, EOS, (20, 2))
    found = np.exp(distributions(trie, model.estimates, contexts).astype(np.float64))
    np.testing.assert_allclose(found.sum(-1), 1, atol=2e-6)


def test_thresholds_of_zero_change_nothing():
    texts = [[0, 1, 2, 1], [1, 2]]
    plain = Model(Config(order=3), VOCABULARY, EOS).fit([stream(texts)])
    same = Model(Config(order=3, prune=(0, 0, 0)), VOCABULARY, EOS).fit([stream(texts)])
    np.testing.assert_array_equal(plain.score(stream(texts)), same.score(stream(texts)))


@pytest.mark.parametrize(
    ("thresholds", "sentence"),
    [((1,), "start with 0"), ((0, 2, 1), "never fall"), ((0, 0, 0, 1), "order is 3"), ((0, -1), "never fall")],
)
def test_impossible_thresholds_are_refused(thresholds, sentence):
    with pytest.raises(UserError, match=sentence):
        Config(order=3, prune=thresholds)
