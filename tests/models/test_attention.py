from itertools import product

import numpy as np
import pytest
import torch

from chainrule.errors import UserError
from chainrule.models.attention import CHOICES, Config, Model
from chainrule.nest import select_rows

VOCABULARY, EOS = 9, 8
WORDS = np.random.default_rng(0).integers(0, VOCABULARY, (3, 10))
SWITCHES = [
    {"weights": weights, "positions": positions, "num_heads": num_heads, "has_residuals": on, "has_layer_norm": on}
    for weights, positions, num_heads, on in product(
        CHOICES["weights"], CHOICES["positions"], (1, 2), (False, True)
    )
]  # fmt: skip


def make(**settings) -> Model:
    torch.manual_seed(0)
    config = Config(**{"width": 8, "hidden_width": 8, "context_length": 16, "num_heads": 2, **settings})
    model = Model(config, VOCABULARY, EOS).eval()
    torch.nn.init.normal_(model.embedding.weight)
    return model


def predict(model: Model, words: np.ndarray) -> np.ndarray:
    return model.step(words, model.start(len(words)))[0].detach().numpy()


@pytest.mark.parametrize("settings", SWITCHES, ids=lambda settings: ",".join(map(str, settings.values())))
@torch.no_grad()
def test_reading_in_pieces_equals_reading_at_once(settings):
    """With every combination of switches; the contract suite runs on one."""
    model = make(**settings)
    whole = predict(model, WORDS)
    state, found = model.start(3), []
    for start, end in ((0, 1), (1, 2), (2, 6), (6, 10)):
        logits, state = model.step(WORDS[:, start:end], state)
        found.append(logits.numpy())
    np.testing.assert_allclose(np.concatenate(found, 1), whole, atol=1e-5)
    _, state = model.step(WORDS[:, :4], model.start(3))
    logits, _ = model.step(WORDS[[2, 2, 0], 4:], select_rows(state, np.array([2, 2, 0])))
    np.testing.assert_allclose(logits.numpy(), whole[[2, 2, 0], 4:], atol=1e-5)


@pytest.mark.parametrize("settings", SWITCHES, ids=lambda settings: ",".join(map(str, settings.values())))
def test_a_later_word_never_changes_an_earlier_prediction(settings):
    model = make(**settings)
    changed = WORDS.copy()
    changed[:, 6:] = (changed[:, 6:] + 1) % VOCABULARY
    before, after = predict(model, WORDS), predict(model, changed)
    np.testing.assert_array_equal(before[:, :6], after[:, :6])
    assert not np.allclose(before[:, 6:], after[:, 6:], atol=1e-3)


@pytest.mark.parametrize("words", [[0, 1, 2, 3], [0, 2, 1, 3]])
def test_the_in_class_poll(words):
    """x'₄ = .1 x₁ + .2 x₂ + .6 x₃ + .1 x₄, and the same when x₂ and x₃ change places: weights follow the content."""
    model = make(
        width=4, num_heads=1, positions="none", activation="tanh", has_residuals=False, has_layer_norm=False
    )  # fmt: skip
    x = torch.diag(torch.tensor([1.0, 1.0, 2.0, 1.0]))
    model.embedding.weight.data[:4] = x
    keys = torch.zeros(4, 4)
    keys[3] = 2 * torch.tensor([0.1, 0.2, 0.6, 0.1]).log() / x.diagonal()  # q₄ = x₄ reads the last entry, √d is 2
    model.query_key_value.weight.data = torch.cat([torch.eye(4), keys, torch.eye(4)])
    seen = []
    model.hidden.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach().numpy()))
    predict(model, np.array([words]))
    np.testing.assert_allclose(seen[0][0, -1], [0.1, 0.2, 1.2, 0.1], atol=1e-6)


def test_only_learned_positions_end_and_say_so():
    words = np.tile(WORDS, 3)  # 30 of them, of a context of 16
    with pytest.raises(UserError, match="^the text has 30 tokens but this model reads 16; shorten it$"):
        predict(make(positions="learned"), words)
    model = make(positions="learned")
    _, state = model.step(words[:, :16], model.start(3))
    with pytest.raises(UserError, match="the text has 17 tokens"):
        model.step(words[:, 16:17], state)
    for positions in ("none", "sinusoidal"):
        assert np.isfinite(predict(make(positions=positions), words)).all()


def test_a_stream_longer_than_the_context_is_scored_in_windows():
    model = make(context_length=6)
    stream = np.random.default_rng(2).integers(0, VOCABULARY, 20).astype(np.uint32)
    found = model.score(stream)
    for target, start in ((1, 0), (6, 0), (7, 3), (9, 3), (10, 6), (18, 12), (19, 13)):
        window = stream[None, start:target].astype(np.int64)
        expected = torch.from_numpy(predict(model, window))[0, -1].log_softmax(-1)[int(stream[target])]
        assert found[target - 1] == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize("length", [1, 2, 5, 7, 8])
def test_a_stream_about_as_long_as_the_context_is_scored(length: int):
    model = make(context_length=6)
    stream = np.random.default_rng(2).integers(0, VOCABULARY, length).astype(np.uint32)
    expected = []
    for target in range(1, length):
        window = stream[None, max(0, (length - 7 if target > 6 else 0)) : target].astype(np.int64)
        expected.append(float(torch.from_numpy(predict(model, window))[0, -1].log_softmax(-1)[int(stream[target])]))
    assert model.score(stream).tolist() == pytest.approx(expected, abs=1e-5)


def test_update_rules_see_queries_keys_and_values_as_three_matrices():
    model = make()
    parts = {name: model.matrix_parts(name) for name, _ in model.named_parameters()}
    assert {name: count for name, count in parts.items() if count > 1} == {"query_key_value.weight": 3}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"num_heads": 0}, "num_heads must be at least 1, got 0"),
        ({"context_length": 0}, "context_length must be at least 1, got 0"),
        ({"num_heads": 3}, r"width must be a multiple of num_heads \(3\), got 128"),
        ({"weights": "soft-max"}, "weights must be one of uniform, softmax, got 'soft-max'; did you mean 'softmax'\\?"),
        ({"positions": "rotary"}, "positions must be one of none, learned, sinusoidal, got 'rotary'"),
        ({"activation": "relu"}, "activation must be one of tanh, gelu, got 'relu'; did you mean 'gelu'\\?"),
        ({"dropout": float("nan")}, "dropout must be at least 0 and below 1, got nan"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(settings, sentence):
    with pytest.raises(UserError, match=f"^{sentence}$"):
        Config(**settings)
