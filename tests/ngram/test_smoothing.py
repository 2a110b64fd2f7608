import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.ngram import interpolation
from chainrule.ngram.count import count_ngrams
from chainrule.ngram.discounts import Discounts
from chainrule.ngram.query import distributions, score_stream
from chainrule.ngram.smoothing import METHODS, Smoothing

from .corpora import EOS, VOCABULARY, documents, orders, stream
from .reference import Reference

BY_FORMULA = [name for name in METHODS if name != "jelinek-mercer"]


def contexts_of(order: int, generator: np.random.Generator, count: int = 30) -> np.ndarray:
    """Random contexts: seen and unseen, some at the start of a document."""
    contexts = generator.integers(0, EOS, (count, order - 1))
    for row in contexts[: count // 2]:
        if order > 1:
            row[: generator.integers(0, order)] = -1
            begins = np.flatnonzero(row >= 0)
            if len(begins):
                row[begins[0]] = EOS
    return contexts


def usable(context: np.ndarray) -> tuple[int, ...]:
    return tuple(int(word) for word in context if word >= 0)


@pytest.mark.parametrize("name", BY_FORMULA)
@given(texts=documents, order=orders, seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_probabilities_equal_the_textbook_formula(name, texts, order, seed):
    ids = stream(texts)
    trie = count_ngrams(ids, order, VOCABULARY, EOS)
    estimates = METHODS[name](trie, Smoothing(k=0.5), None)
    reference = Reference(ids.tolist(), order, VOCABULARY, EOS)
    formula = reference.add_k(0.5) if name == "add-k" else getattr(reference, name.replace("-", "_"))()
    contexts = contexts_of(order, np.random.default_rng(seed))
    found = np.exp(distributions(trie, estimates, contexts).astype(np.float64))
    expected = [[formula(word, usable(context)) for word in range(VOCABULARY)] for context in contexts]
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-7)


def test_stupid_backoff_pays_for_a_context_that_never_occurred():
    """Brants et al. (2007): S(w | x a) = 0.4 S(w | a) wherever c(x a w) = 0, whether or not c(x a) is zero, too."""
    a, b, c, x = range(4)
    trie = count_ngrams(stream([[a, b], [a, c]]), 3, VOCABULARY, EOS)
    estimates = METHODS["stupid-backoff"](trie, Smoothing(), None)
    scores = np.exp(distributions(trie, estimates, np.array([[x, a], [EOS, a], [b, x]])))
    assert scores[0, b] == pytest.approx(0.4 * 1 / 2)  # 'x a' never occurred
    assert scores[1, b] == pytest.approx(1 / 2)  # 'a' at the start of a document did
    assert scores[2, b] == pytest.approx(0.4 * 0.4 * 1 / 6)  # neither 'b x' nor 'x' did


@given(texts=documents, order=orders, alpha=st.floats(0.1, 1), seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_the_factor_of_stupid_backoff_can_be_chosen(texts, order, alpha, seed):
    ids = stream(texts)
    trie = count_ngrams(ids, order, VOCABULARY, EOS)
    estimates = METHODS["stupid-backoff"](trie, Smoothing(alpha=alpha), None)
    formula = Reference(ids.tolist(), order, VOCABULARY, EOS).stupid_backoff(alpha)
    contexts = contexts_of(order, np.random.default_rng(seed))
    found = np.exp(distributions(trie, estimates, contexts).astype(np.float64))
    expected = [[formula(word, usable(context)) for word in range(VOCABULARY)] for context in contexts]
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize(("given", "each"), [((0.75,), (0.75, 0.75, 0.75)), ((0.5, 1.0, 1.5), (0.5, 1.0, 1.5))])
@pytest.mark.parametrize("name", ["absolute", "kneser-ney", "modified-kneser-ney"])
def test_discounts_can_be_fixed(name, given, each):
    generator = np.random.default_rng(0)
    ids = stream([generator.integers(0, EOS, 12).tolist() for _ in range(30)])
    trie = count_ngrams(ids, 3, VOCABULARY, EOS)
    estimates = METHODS[name](trie, Smoothing(discounts=given), None)
    assert estimates.discounts == [list(each)] * 3
    assert not estimates.notes
    reference = Reference(ids.tolist(), 3, VOCABULARY, EOS)
    counts = (lambda k: reference.counts[k - 1]) if name == "absolute" else reference.continuation
    formula = reference.interpolated(counts, lambda counts, order: Discounts(*each))
    contexts = contexts_of(3, generator)
    expected = [[formula(word, usable(context)) for word in range(VOCABULARY)] for context in contexts]
    np.testing.assert_allclose(np.exp(distributions(trie, estimates, contexts)), expected, rtol=2e-5)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "stupid-backoff"])
@given(texts=documents, order=orders, held_out=documents, seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_probabilities_sum_to_one_after_any_context(name, texts, order, held_out, seed):
    trie = count_ngrams(stream(texts), order, VOCABULARY, EOS)
    estimates = METHODS[name](trie, Smoothing(), stream(held_out))
    assert estimates.is_normalised
    found = np.exp(distributions(trie, estimates, contexts_of(order, np.random.default_rng(seed))).astype(np.float64))
    np.testing.assert_allclose(found.sum(-1), 1, atol=2e-6)


def test_stupid_backoff_says_that_it_does_not_sum_to_one():
    estimates = METHODS["stupid-backoff"](count_ngrams(stream([[0, 1, 2]]), 3, VOCABULARY, EOS), Smoothing(), None)
    assert not estimates.is_normalised
    assert "do not sum to one" in " ".join(estimates.notes)


@pytest.mark.parametrize("name", ["modified-kneser-ney", "kneser-ney", "absolute", "katz"])
def test_tiny_corpora_fall_back_and_say_so(name):
    """KenLM refuses these; we use simpler discounts and tell."""
    estimates = METHODS[name](count_ngrams(stream([[0, 1]]), 3, VOCABULARY, EOS), Smoothing(), None)
    assert estimates.notes
    assert all("cannot be estimated" in note for note in estimates.notes)


def test_interpolation_weights_make_held_out_text_likelier_than_the_rule():
    generator = np.random.default_rng(0)
    texts = [(np.cumsum(generator.integers(0, 2, 20)) % EOS).tolist() for _ in range(200)]
    train, held_out = stream(texts[:150]), stream(texts[150:])
    trie = count_ngrams(train, 3, VOCABULARY, EOS)
    fitted = METHODS["jelinek-mercer"](trie, Smoothing(), held_out)
    by_rule = METHODS["jelinek-mercer"](trie, Smoothing(), None)
    assert score_stream(trie, fitted, held_out)[0].sum() > score_stream(trie, by_rule, held_out)[0].sum()
    assert "held-out tokens" in fitted.notes[0]
    assert "no held-out text" in by_rule.notes[0]


def test_a_round_of_em_asks_every_token_which_order_it_came_from():
    """Posterior over orders token by token, as the mixture is defined; in place of the running products."""
    generator = np.random.default_rng(2)
    texts = [(np.cumsum(generator.integers(0, 3, 9)) % EOS).tolist() for _ in range(40)]
    trie, held_out = count_ngrams(stream(texts[:20]), 3, VOCABULARY, EOS), stream(texts[20:])
    frequency, tokens = interpolation.gather(trie, held_out)
    weights = generator.uniform(0.2, 0.8, (3, interpolation.BUCKETS))
    pools = interpolation.bucket(tokens)
    asked, used = np.zeros_like(weights), np.zeros_like(weights)
    for i in range(len(frequency)):
        seen = [k for k in range(3) if tokens[i, k] > 0]
        chances = {}  # of having come from each order seen, or from the uniform distribution (-1)
        left = 1.0
        for k in reversed(seen):
            chances[k] = left * weights[k, pools[i, k]] * frequency[i, k]
            left *= 1 - weights[k, pools[i, k]]
        chances[-1] = left / VOCABULARY
        total = sum(chances.values())
        for k in seen:
            used[k, pools[i, k]] += chances[k] / total
            asked[k, pools[i, k]] += sum(chance for order, chance in chances.items() if order <= k) / total
    prior, strength = interpolation.weights_by_rule(3), interpolation.PRIOR_TOKENS
    found, _ = interpolation.em_round(weights, (frequency, tokens > 0, pools, VOCABULARY))
    np.testing.assert_allclose(found, (used + strength * prior) / (asked + strength))


def test_fitted_interpolation_weights_are_a_maximum():
    """EM climbs: no single weight of any order can be moved to make the held-out text likelier."""
    generator = np.random.default_rng(1)
    texts = [(np.cumsum(generator.integers(0, 2, 20)) % EOS).tolist() for _ in range(400)]
    trie = count_ngrams(stream(texts[:30]), 3, VOCABULARY, EOS)
    held_out = stream(texts[30:])
    weights, _ = interpolation.fit_weights(trie, held_out)
    frequency, tokens = interpolation.gather(trie, held_out)

    def likelihood(changed: np.ndarray) -> float:
        below = np.full(len(frequency), 1 / VOCABULARY)
        for k in range(3):
            weight = np.where(tokens[:, k] > 0, changed[k][interpolation.bucket(tokens[:, k])], 0)
            below = weight * frequency[:, k] + (1 - weight) * below
        return float(np.log(below).sum())

    best = likelihood(weights)
    gains = []
    for k in range(3):
        for bucket in range(interpolation.BUCKETS):
            for step in (-0.02, 0.02):
                changed = weights.copy()
                changed[k, bucket] = np.clip(changed[k, bucket] + step, 0.001, 0.999)
                gains.append(likelihood(changed) - best)
    assert max(gains) < 0.1  # what the prior of a tenth of a token may cost
    assert min(gains) < -1  # so that the weights that were moved do matter


@pytest.mark.parametrize("name", METHODS)
@given(texts=documents, other=documents, order=orders, seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_the_numbers_of_words_do_not_matter_nor_which_is_the_end(name, texts, other, order, seed):
    """Relabelled, the end of a document anywhere among the ids, every token has the same probability."""
    labels = np.random.default_rng(seed).permutation(VOCABULARY).astype(np.uint32)
    found = []
    for ids, test, eos in (
        (stream(texts), stream(other), EOS),
        (labels[stream(texts)], labels[stream(other)], int(labels[EOS])),
    ):
        trie = count_ngrams(ids, order, VOCABULARY, eos)
        found.append(score_stream(trie, METHODS[name](trie, Smoothing(), test), test)[0])
    np.testing.assert_allclose(found[0], found[1], rtol=2e-5, atol=2e-6)
