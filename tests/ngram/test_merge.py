import numpy as np
import pytest
from hypothesis import given, settings

from chainrule.errors import UserError
from chainrule.models.ngram import Config, Model
from chainrule.ngram.count import count_ngrams
from chainrule.ngram.merge import add, subtract
from chainrule.ngram.trie import Trie

from .corpora import EOS, VOCABULARY, documents, orders, stream


def assert_equal(found: Trie, expected: Trie) -> None:
    for name, array in expected.arrays().items():
        np.testing.assert_array_equal(found.arrays()[name], array, err_msg=name)


@given(documents, documents, orders)
@settings(max_examples=100, deadline=None)
def test_merging_shards_equals_counting_the_whole(first, second, order):
    parts = [count_ngrams(stream(texts), order, VOCABULARY, EOS) for texts in (first, second)]
    assert_equal(add(*parts), count_ngrams(stream(first + second), order, VOCABULARY, EOS))


@given(documents, documents, orders)
@settings(max_examples=100, deadline=None)
def test_taking_documents_out_equals_never_having_counted_them(first, second, order):
    whole = count_ngrams(stream(first + second), order, VOCABULARY, EOS)
    out = count_ngrams(stream(second), order, VOCABULARY, EOS)
    assert_equal(subtract(whole, out), count_ngrams(stream(first), order, VOCABULARY, EOS))


@given(documents, documents)
@settings(max_examples=30, deadline=None)
def test_a_model_of_merged_shards_equals_the_model_of_the_whole(first, second):
    config = Config(order=3)
    shards = Model(config, VOCABULARY, EOS).fit([stream(first), stream(second)])
    whole = Model(config, VOCABULARY, EOS).fit([stream(first + second)])
    np.testing.assert_array_equal(shards.estimates.log_probability, whole.estimates.log_probability)
    np.testing.assert_array_equal(shards.estimates.backoff, whole.estimates.backoff)
    np.testing.assert_array_equal(
        whole.without(stream(second)).score(stream(first)),
        Model(config, VOCABULARY, EOS).fit([stream(first)]).score(stream(first)),
    )


def test_text_that_was_never_counted_cannot_be_taken_out():
    whole = count_ngrams(stream([[0, 1], [1, 2]]), 2, VOCABULARY, EOS)
    for other in ([[3]], [[0, 2]]):
        with pytest.raises(UserError, match="was not part of what was counted"):
            subtract(whole, count_ngrams(stream(other), 2, VOCABULARY, EOS))


def test_different_orders_cannot_be_merged():
    with pytest.raises(UserError, match="order 2 and 3"):
        add(count_ngrams(stream([[0]]), 2, VOCABULARY, EOS), count_ngrams(stream([[0]]), 3, VOCABULARY, EOS))


def test_pruned_models_cannot_be_merged():
    model = Model(Config(order=2, prune=(0, 1)), VOCABULARY, EOS).fit([stream([[0, 1]])])
    with pytest.raises(UserError, match="pruned"):
        model.add(model)
