"""Weights, buckets and decays that are chosen on a text, against choosing them by hand."""

import numpy as np
import pytest
import torch

from chainrule.analysis.mix import fit as fitting
from chainrule.analysis.mix.fit import add_cache, fit
from chainrule.evaluation.score import stream_of
from chainrule.models import cache, lstm, ngram
from chainrule.models._mix_weights import fit_weights
from chainrule.models.mix import Config, Model
from tests.analysis.mix.toys import TOKENIZER, bigram, bigrams, text_of

REPEATED = tuple(f"the {word} sat on the {word} and the {word}" for word in ("mat", "cat", "dog") * 30)

# One word for forty lines, then another: only the last words help.
CHANGING = tuple(" ".join([word] * 3) for word in ("mat", "cat", "dog", "end") for _ in range(40))


def test_one_bucket_has_the_weights_of_em() -> None:
    model = bigrams(1, 2, 3)
    text = text_of(model)
    fitted = fit(model, text)
    np.testing.assert_array_equal(fitted.weights, fit_weights(text.log_p)[None])
    assert fitted.names == model.names


def test_fitting_makes_the_text_more_likely_than_equal_weights() -> None:
    model = bigrams(1, 2, 3)
    text = text_of(model, REPEATED)
    assert text.scores_of_mix(fit(model, text)).nats.sum() < text.scores_of_mix(model).nats.sum() - 1


def test_by_order_there_is_a_bucket_for_every_length_of_context() -> None:
    stream = stream_of(TOKENIZER, text_of(bigrams(1)).batches[1].documents)
    part = ngram.Model(ngram.Config(4, "witten-bell"), TOKENIZER.vocabulary_size, TOKENIZER.eos).fit([stream])
    model = Model(Config("order"), [part, bigram(1)], "ab")
    text = text_of(model)
    fitted = fit(model, text)
    assert fitted.edges.tolist() == [0.5, 1.5, 2.5]
    assert fitted.buckets(text.signal).tolist() == text.signal.astype(int).tolist()
    weights = fitted.weights[3]  # contexts that the n-gram has met whole: there it knows the text by heart
    assert weights[0] > fitted.weights[1][0]


def test_by_entropy_the_buckets_share_the_text_equally() -> None:
    torch.manual_seed(0)
    part = lstm.Model(lstm.Config(width=8, num_layers=1), TOKENIZER.vocabulary_size, TOKENIZER.eos).eval()
    model = Model(Config("entropy"), [part, bigram(1)], "ab")
    text = text_of(model, REPEATED)
    fitted = fit(model, text)
    shares = np.bincount(fitted.buckets(text.signal)) / len(text.signal)
    assert len(shares) == len(fitted.weights) == fitting.ENTROPY_BUCKETS
    np.testing.assert_allclose(shares, 1 / fitting.ENTROPY_BUCKETS, atol=0.05)


@pytest.mark.parametrize(("lines", "expected"), [(REPEATED, max(fitting.DECAYS)), (CHANGING, min(fitting.DECAYS))])
def test_the_cache_has_the_decay_that_serves_the_text_best(lines: tuple[str, ...], expected: float) -> None:
    """Every decay tried by hand, each with weights of its own."""
    model = bigrams(1, 2)
    text = text_of(model, lines)
    extended, with_cache = add_cache(model, text)
    found = {}
    ids = [id for batch in text.batches for id in batch.stream[1:].tolist()]
    shares = np.array([ids.count(id) / len(ids) for id in range(model.vocabulary_size)])
    for decay in fitting.DECAYS:
        part = cache.Model(cache.Config(decay), model.vocabulary_size, model.eos, shares)
        rows = np.concatenate(
            [[each.score(batch.stream) for each in (*model.parts, part)] for batch in text.batches], 1
        )
        found[decay] = np.log(fit_weights(rows) @ np.exp(rows)).sum()
    best = max(found, key=lambda decay: found[decay])
    assert isinstance(extended.parts[-1], cache.Model)
    assert extended.parts[-1].config.decay == best == expected
    np.testing.assert_allclose(extended.parts[-1].background, shares)
    assert extended.names == (*model.names, "cache")
    assert with_cache.log_p.shape == (3, text.log_p.shape[1])
    before, after = fit(model, text), fit(extended, with_cache)
    gain = text.scores_of_mix(before).nats.sum() - with_cache.scores_of_mix(after).nats.sum()
    assert gain == pytest.approx(found[best] - np.log(before.weights @ np.exp(text.log_p)).sum(), abs=0.1)
    assert gain > 50
