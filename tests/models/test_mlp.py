import numpy as np
import pytest
import torch

from chainrule.errors import UserError
from chainrule.models.mlp import Config, Model

VOCABULARY, EOS = 9, 8
WORDS = np.random.default_rng(0).integers(0, VOCABULARY, (2, 12))


def make(**settings) -> Model:
    torch.manual_seed(0)
    return Model(Config(**{"order": 4, "width": 5, "hidden_width": 6, **settings}), VOCABULARY, EOS).eval()


def predict(model: Model, words: np.ndarray) -> np.ndarray:
    return model.step(words, model.start(len(words)))[0].detach().numpy()


@pytest.mark.parametrize("order", [2, 3, 6])
def test_only_as_many_words_as_the_memory_matter(order: int):
    model = make(order=order)
    assert model.receptive_field == order - 1
    found = predict(model, WORDS)
    for last in range(model.receptive_field, WORDS.shape[1] + 1):
        changed = WORDS.copy()
        changed[:, : last - model.receptive_field] = (changed[:, : last - model.receptive_field] + 1) % VOCABULARY
        np.testing.assert_allclose(predict(model, changed)[:, last - 1], found[:, last - 1], atol=1e-6)
        changed[:, last - model.receptive_field] = (changed[:, last - model.receptive_field] + 1) % VOCABULARY
        assert not np.allclose(predict(model, changed)[:, last - 1], found[:, last - 1], atol=1e-4)


def test_the_order_of_the_words_matters():
    model = make()
    assert not np.allclose(predict(model, np.array([[1, 2, 3]]))[0, -1], predict(model, np.array([[2, 1, 3]]))[0, -1])


def test_no_word_yet_is_not_the_same_as_any_word():
    model = make()
    short = predict(model, np.array([[3]]))[0, -1]
    for word in range(VOCABULARY):
        assert not np.allclose(predict(model, np.array([[word, word, 3]]))[0, -1], short, atol=1e-4)


def test_without_the_direct_connection_only_the_tanh_units_are_seen():
    """No unit is beyond ±1, so no logit is further from its bias than the weights of its row together."""
    model = make(is_direct=False)
    model.embedding.weight.data *= 1e6
    weight, bias = model.unembedding.weight.detach().numpy(), model.unembedding.bias.detach().numpy()
    assert weight.shape == (VOCABULARY, 6)
    assert (np.abs(predict(model, WORDS) - bias) <= np.abs(weight).sum(1) + 1e-5).all()
    direct = make(is_direct=True)
    direct.embedding.weight.data *= 1e6
    assert np.abs(predict(direct, WORDS)).max() > 1e3


def test_a_stream_is_scored_with_the_words_before_each():
    model = make()
    stream = np.concatenate([[EOS], WORDS[0], [EOS]]).astype(np.uint32)
    logits = torch.from_numpy(predict(model, stream[None, :-1].astype(np.int64)))[0].log_softmax(-1).numpy()
    np.testing.assert_allclose(model.score(stream), logits[np.arange(len(logits)), stream[1:]], atol=1e-6)


def test_dropout_is_for_training_only():
    model = make(dropout=0.5)
    np.testing.assert_array_equal(predict(model, WORDS), predict(model, WORDS))
    model.train()
    assert not np.allclose(predict(model, WORDS), predict(model, WORDS))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"order": 1}, r"order must be at least 2 \(one word before\), got 1"),
        ({"width": 0}, "width must be at least 1, got 0"),
        ({"hidden_width": -1}, "hidden_width must be at least 1, got -1"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(settings, sentence):
    with pytest.raises(UserError, match=f"^{sentence}$"):
        Config(**settings)
