"""The figures of a mix and its parts against evaluating each of them."""

from math import exp, inf, log

import numpy as np
import pytest

from chainrule.analysis.mix.fit import fit
from chainrule.analysis.mix.gain import measure_gain
from chainrule.evaluation.significance import paired_bootstrap
from chainrule.models import cache
from chainrule.models.mix import Model
from tests.analysis.mix.toys import TOKENIZER, bigrams, text_of

LINES = tuple(f"the {a} sat on the {b}" for a in ("cat", "dog", "mat") for b in ("cat", "dog", "mat")) * 4


def test_figures_are_those_of_the_scores() -> None:
    model = bigrams(1, 2)
    text = text_of(model, LINES)
    model = fit(model, text)
    found = measure_gain(model, text)
    size = sum(len(line) + 1 for line in LINES)
    for figures, scores in [
        (found, text.scores_of_mix(model)),
        (found["parts"][0], text.scores_of_part(0)),
        (found["parts"][1], text.scores_of_part(1)),
    ]:
        nats, tokens = scores.nats.sum(), sum(len(TOKENIZER.encode(line)) + 1 for line in LINES)
        assert figures["perplexity"] == pytest.approx(exp(nats / tokens))
        assert figures["bits_per_byte"] == pytest.approx(nats / log(2) / size)
        assert (figures["tokens"], figures["documents"], figures["bytes"]) == (tokens, len(LINES), size)
    assert [part["weight"] for part in found["parts"]] == pytest.approx(model.weights[0].tolist())
    assert [part["name"] for part in found["parts"]] == ["runs/1", "runs/2"]
    best = int(np.argmin([part["loss"] for part in found["parts"]]))
    expected = paired_bootstrap(text.scores_of_mix(model), text.scores_of_part(best))
    assert found["against"] == {"run": f"runs/{best + 1}", **vars(expected)}
    assert found["against"]["bits_per_byte"] < 0


def test_weights_of_several_buckets_are_those_of_the_mean_token() -> None:
    model = bigrams(1, 2)
    text = text_of(model, LINES)
    edges = np.array([0.5])
    model = Model(model.config, model.parts, model.names, np.array([[0.2, 0.8], [0.6, 0.4]]), edges)
    for batch in text.batches:
        batch.signal[: len(batch.signal) // 4] = 1
    share = sum(len(batch.signal) // 4 for batch in text.batches) / len(text.signal)
    found = measure_gain(model, text)
    assert found["parts"][0]["weight"] == pytest.approx(0.2 * (1 - share) + 0.6 * share)


def test_parts_that_are_infinite_are_not_the_best_and_have_no_figures() -> None:
    model = bigrams(1)
    nothing = np.eye(model.vocabulary_size)[model.eos]
    recent = cache.Model(cache.Config(0.9), model.vocabulary_size, model.eos, nothing)
    model = Model(model.config, [recent, *model.parts], ["cache", "runs/1"])
    found = measure_gain(model, text_of(model, LINES))
    assert text_of(model, LINES).scores_of_part(0).nats.sum() == inf
    assert [found["parts"][0][name] for name in ("loss", "perplexity", "bits_per_byte")] == [None] * 3
    assert found["parts"][0]["impossible_tokens"] > 2  # words that come for the first time
    assert found["against"]["run"] == "runs/1"
    assert found["perplexity"] > 0


def test_one_document_has_figures_but_cannot_be_resampled() -> None:
    model = bigrams(1, 2)
    found = measure_gain(model, text_of(model, LINES[:1]))
    assert found["against"] is None
    assert found["documents"] == 1
