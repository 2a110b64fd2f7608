import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.ngram.count import count_ngrams, sort_windows

from .corpora import EOS, VOCABULARY, documents, orders, stream
from .reference import Reference


@given(documents, orders)
@settings(max_examples=150, deadline=None)
def test_counts_equal_those_of_a_dictionary(texts, order):
    ids = stream(texts)
    trie = count_ngrams(ids, order, VOCABULARY, EOS)
    expected = Reference(ids.tolist(), order, VOCABULARY, EOS).counts
    for k in range(1, order + 1):
        level = trie.level(k)
        found = {tuple(trie.ngram(node)): int(trie.count[node]) for node in range(level.start, level.stop)}
        assert {gram: count for gram, count in found.items() if count} == {
            g: c for g, c in expected[k - 1].items() if c
        }
    assert trie.count[0] == len(ids) - 1


@given(documents, orders)
@settings(max_examples=50, deadline=None)
def test_every_suffix_link_leads_to_the_ngram_without_its_first_word(texts, order):
    trie = count_ngrams(stream(texts), order, VOCABULARY, EOS)
    for node in range(1, len(trie.word)):
        assert trie.ngram(int(trie.suffix[node])) == trie.ngram(node)[1:]


@given(documents, orders)
@settings(max_examples=50, deadline=None)
def test_find_gives_the_node_of_every_ngram_and_nothing_else(texts, order):
    trie = count_ngrams(stream(texts), order, VOCABULARY, EOS)
    nodes = {tuple(trie.ngram(node)): node for node in range(len(trie.word))}
    for gram, node in nodes.items():
        assert trie.find(gram) == node
    generator = np.random.default_rng(0)
    for gram in map(tuple, generator.integers(0, VOCABULARY, (50, order)).tolist()):
        assert trie.find(gram) == nodes.get(gram, -1)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=3, deadline=None)
def test_sorting_on_several_threads_equals_sorting_by_key(seed):
    """Large enough to be cut into a part per core."""
    generator = np.random.default_rng(seed)
    ids = generator.integers(0, 30, 50_000).astype(np.uint32)
    ids[[0, -1]] = 29
    found = sort_windows(ids, 3, 30, 29)
    padded = np.concatenate([ids.astype(np.int64), [-1, -1]])
    columns = np.stack([padded[i : i + len(ids) - 1] for i in range(3)], 1)
    columns[:, 2][columns[:, 1] == 29] = -1  # a window ends with its document
    expected = np.lexsort((columns[:, 2], columns[:, 1], columns[:, 0]))
    np.testing.assert_array_equal(found, expected)
