from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings

from chainrule.ngram.count import count_ngrams
from chainrule.ngram.query import context_lengths, distributions, score_stream
from chainrule.ngram.smoothing import METHODS, Smoothing

from .corpora import EOS, VOCABULARY, documents, orders, stream


@pytest.mark.parametrize("name", ["modified-kneser-ney", "katz", "stupid-backoff", "maximum-likelihood"])
@given(texts=documents, other=documents, order=orders)
@settings(max_examples=40, deadline=None)
def test_bulk_scores_equal_whole_distributions(name, texts, other, order):
    trie = count_ngrams(stream(texts), order, VOCABULARY, EOS)
    estimates = METHODS[name](trie, Smoothing(), None)
    ids = stream(other).astype(np.int64)
    scores, _ = score_stream(trie, estimates, ids.astype(np.uint32))
    padded = np.concatenate([np.full(order - 1, -1), ids])
    contexts = np.array([padded[i + 1 : i + order] for i in range(len(ids) - 1)]).reshape(len(ids) - 1, order - 1)
    found = distributions(trie, estimates, contexts)[np.arange(len(ids) - 1), ids[1:]]
    np.testing.assert_allclose(scores, found, rtol=1e-5, atol=1e-6)


def test_matched_length_is_the_longest_ngram_seen():
    trie = count_ngrams(stream([[0, 1, 2], [3, 1, 4]]), 3, VOCABULARY, EOS)
    estimates = METHODS["witten-bell"](trie, Smoothing(), None)
    _, matched = score_stream(trie, estimates, stream([[0, 1, 2], [3, 1, 2]]))
    assert matched.tolist() == [2, 3, 3, 3, 2, 3, 2, 3]


def test_scores_cut_over_threads_equal_scores_in_one_piece():
    generator = np.random.default_rng(0)
    texts = [(np.cumsum(generator.integers(0, 3, 30)) % EOS).tolist() for _ in range(2000)]
    ids = stream(texts)
    trie = count_ngrams(ids, 4, VOCABULARY, EOS)
    estimates = METHODS["modified-kneser-ney"](trie, Smoothing(), None)
    whole, _ = score_stream(trie, estimates, ids)
    edges = np.flatnonzero(ids == EOS)
    pieces = [score_stream(trie, estimates, ids[a : b + 1])[0] for a, b in pairwise(edges)]
    np.testing.assert_array_equal(whole, np.concatenate(pieces))


@given(texts=documents, other=documents, order=orders)
@settings(max_examples=60, deadline=None)
def test_context_lengths_are_those_of_the_longest_end_that_was_followed_by_anything(texts, other, order):
    trie = count_ngrams(stream(texts), order, VOCABULARY, EOS)
    counted, ids = stream(texts).tolist(), stream(other).astype(np.int64)
    padded = np.concatenate([np.full(order - 1, -1), ids])
    contexts = np.array([padded[i + 1 : i + order] for i in range(len(ids))]).reshape(len(ids), order - 1)
    for length, context in zip(context_lengths(trie, contexts), contexts.tolist(), strict=True):
        ends = [context[len(context) - n :] for n in range(order)]
        ends = [end for end in ends if -1 not in end and EOS not in end[1:]]
        followed = [
            end for end in ends if any(counted[i : i + len(end)] == end for i in range(len(counted) - len(end)))
        ]
        assert length == max(map(len, followed))
