import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.models.infinigram import Config, Model
from chainrule.ngram.suffix_array import build_suffix_array, find_longest, find_range

from .corpora import EOS, VOCABULARY, documents, stream

words = st.lists(st.integers(0, EOS), max_size=6)


def rest_of_document(ids: np.ndarray, position: int) -> list[int]:
    end = position + 1
    while ids[end] != EOS:
        end += 1
    return ids[position : end + 1].tolist()


@given(documents)
@settings(max_examples=200, deadline=None)
def test_suffixes_are_in_order(texts):
    ids = stream(texts)
    suffixes = [rest_of_document(ids, int(position)) for position in build_suffix_array(ids, VOCABULARY, EOS)]
    assert suffixes == sorted(suffixes)
    assert len(suffixes) == len(ids) - 1


def test_long_repeats_are_sorted_too():
    """Prefix doubling has to go on for as long as anything is still equal."""
    ids = stream([[0, 1] * 100 + [2], [0, 1] * 100 + [3], [0] * 300, [0] * 299])
    suffixes = [rest_of_document(ids, int(position)) for position in build_suffix_array(ids, VOCABULARY, EOS)]
    assert suffixes == sorted(suffixes)


@given(documents, words)
@settings(max_examples=100, deadline=None)
def test_find_range_gives_every_place_of_the_words(texts, wanted):
    ids = stream(texts)
    suffixes = build_suffix_array(ids, VOCABULARY, EOS)
    first, last = find_range(ids, suffixes, np.array(wanted, np.int64))
    expected = [p for p in range(len(ids) - 1) if ids[p : p + len(wanted)].tolist() == wanted]
    if EOS not in wanted[1:]:  # a suffix is sorted no further than its document
        assert sorted(suffixes[first:last].tolist()) == expected


@given(documents, words)
@settings(max_examples=100, deadline=None)
def test_the_longest_context_and_what_follows_equal_a_search(texts, context):
    ids = stream(texts)
    if EOS in context:
        context = context[len(context) - 1 - context[::-1].index(EOS) :]
    for length in range(len(context), -1, -1):
        end = context[len(context) - length :]
        places = [p for p in range(len(ids) - 1) if ids[p : p + length].tolist() == end and p + length < len(ids)]
        if places:
            break
    model = Model(Config(), VOCABULARY, EOS).fit([ids])
    found, positions = model.evidence(np.array(context, np.int64))
    assert (found, positions.tolist()) == (length, places)
    following = np.bincount(ids[np.array(places) + length], minlength=VOCABULARY)
    logits, _ = model.step(np.array([context], np.int64), model.start(1)) if context else (None, None)
    if context:
        np.testing.assert_allclose(np.exp(logits[0, -1]), following / following.sum(), rtol=1e-6)


def test_nothing_before_a_documents_start_counts():
    ids = stream([[0, 1], [2, 3]])
    length, _, _ = find_longest(ids, build_suffix_array(ids, VOCABULARY, EOS), np.array([0, 1, EOS, 2]), EOS)
    assert length == 2
