"""Models of bytes mixed bit by bit: the tree of decisions, what the weights learn, saved = loaded."""

from pathlib import Path

import numpy as np
import pytest
import torch

from chainrule.models import contextmixing, ngram
from chainrule.models._bits import decisions, leaves, predict_bits, score_bits
from chainrule.models.contract import LanguageModel, log_softmax
from chainrule.models.ensemble import Config, Model

EOS = 256
TEXT = "".join(
    f"the {'red' if i % 3 else 'old'} cow no. {i % 7} eats {'hay' if i % 2 else 'grass'}\n" for i in range(90)
)


def stream_of(text: str) -> np.ndarray:
    documents = [np.append(np.frombuffer(line.encode(), np.uint8), EOS) for line in text.splitlines()]
    return np.concatenate([[EOS], *documents]).astype(np.int64)


LEARNED, CHOOSING, HELD_OUT = stream_of(TEXT[:1500]), stream_of(TEXT[1500:2000]), stream_of(TEXT[2000:])


@pytest.fixture(scope="module")
def contexts() -> LanguageModel:
    return contextmixing.Model(contextmixing.Config(passes=2), 257, EOS).fit([LEARNED])


@pytest.fixture(scope="module")
def counts() -> LanguageModel:
    return ngram.Model(ngram.Config(order=3), 257, EOS).fit([LEARNED])


def uniform() -> LanguageModel:
    return ngram.Model(ngram.Config(order=1, smoothing="add-k", k=1e9), 257, EOS).fit([LEARNED])


def bits(model: Model, stream: np.ndarray) -> float:
    return float(-model.score(stream).astype(np.float64).mean() / np.log(2))


def test_decisions_and_leaves_are_inverse():
    p = np.random.default_rng(0).dirichlet(np.full(257, 0.3), (2, 3)) * 0.99 + 0.01 / 257
    ones, last = decisions(np.log(p), EOS)
    np.testing.assert_allclose(np.exp(leaves(ones, last, 257, EOS)), p, rtol=1e-4)


def test_bits_of_any_model_add_up_to_its_scores(counts: LanguageModel):
    found = score_bits(predict_bits(counts, HELD_OUT), HELD_OUT, EOS)
    np.testing.assert_allclose(found, counts.score(HELD_OUT), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["lstm", "transformer"])
def test_bits_of_a_network_add_up_to_its_scores(name: str):
    from chainrule import registry

    module = registry.find("chainrule.models", name, "model")
    torch.manual_seed(0)
    network = module.Model(module.SIZES["tiny"], 257, EOS)
    context = network.context_length or 40
    stream = np.resize(HELD_OUT, context + 1 + 4 * (context // 2))
    with torch.no_grad():
        scores = network.score(stream)
    np.testing.assert_allclose(score_bits(predict_bits(network, stream), stream, EOS), scores, rtol=1e-3, atol=1e-3)


def test_one_part_with_a_weight_of_one_is_that_part(contexts: LanguageModel):
    alone = Model(Config(dynamic=False), [contexts], ["contexts"])
    np.testing.assert_allclose(alone.score(HELD_OUT), contexts.score(HELD_OUT), rtol=1e-3, atol=1e-4)


def test_scores_equal_steps(contexts: LanguageModel, counts: LanguageModel):
    model = Model(Config(dynamic=False), [contexts, counts], ["contexts", "counts"])
    model = model.fit(model.ask(CHOOSING), CHOOSING, 2)
    logits, _ = model.step(HELD_OUT[None, :-1], model.start(1))
    np.testing.assert_allclose(np.exp(logits[0].astype(np.float64)).sum(-1), 1, atol=1e-5)
    expected = log_softmax(logits)[0, np.arange(len(HELD_OUT) - 1), HELD_OUT[1:]]
    np.testing.assert_allclose(model.score(HELD_OUT), expected, rtol=1e-3, atol=1e-4)


def test_the_weights_learn_which_parts_to_trust(contexts: LanguageModel):
    model = Model(Config(dynamic=False), [uniform(), contexts], ["uniform", "contexts"])
    fitted = model.fit(model.ask(CHOOSING), CHOOSING, 20)
    alone = bits(Model(Config(dynamic=False), [contexts], ["contexts"]), HELD_OUT)
    assert bits(model, HELD_OUT) > 1.3 * alone, "equal weights are bad"
    assert bits(fitted, HELD_OUT) < 1.1 * alone


def test_two_parts_are_better_than_either(contexts: LanguageModel, counts: LanguageModel):
    model = Model(Config(), [contexts, counts], ["contexts", "counts"])
    fitted = model.fit(model.ask(CHOOSING), CHOOSING, 3)
    alone = [bits(Model(Config(dynamic=False), [part], ["part"]), HELD_OUT) for part in model.parts]
    assert bits(fitted, HELD_OUT) < min(alone)


def test_saved_equals_loaded(contexts: LanguageModel, counts: LanguageModel, tmp_path: Path):
    model = Model(Config(), [contexts, counts], ["contexts", "counts"])
    model = model.fit(model.ask(CHOOSING), CHOOSING, 1)
    model.save(tmp_path / "model.safetensors")
    loaded = Model.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.score(HELD_OUT), model.score(HELD_OUT))
    assert (loaded.config, loaded.names, loaded.learned_from) == (model.config, model.names, model.learned_from)


def test_an_explanation_names_every_part(contexts: LanguageModel, counts: LanguageModel):
    model = Model(Config(), [contexts, counts], ["contexts", "counts"])
    ids = HELD_OUT[:9]
    found = model.look_inside(ids, ord("e"), chr)
    expected = np.exp(model.step(ids[None], model.start(1))[0][0, -1, ord("e")])
    assert found.probability == pytest.approx(expected, rel=1e-4)
    assert [share.part for share in found.shares] == ["contexts", "counts"]
    for share, part in zip(found.shares, model.parts, strict=True):
        alone = np.exp(log_softmax(part.step(ids[None], part.start(1))[0])[0, -1, ord("e")])
        assert share.probability == pytest.approx(alone, rel=1e-4)
