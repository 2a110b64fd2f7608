"""What every conditional model must hold: each encoder, in each direction, with each join and each decoder, tiny."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from chainrule.config import from_json
from chainrule.errors import UserError
from chainrule.layers.cells import CELLS
from chainrule.layers.encoders import DIRECTIONS
from chainrule.models._numpy import step, to_numpy
from chainrule.models.conditional import SIZES, Config, Model
from chainrule.models.contract import IGNORE, Batch, LanguageModel, State, log_softmax
from chainrule.nest import add_rows, remove_row, select_rows

VOCABULARY, EOS, SOURCE_VOCABULARY = 7, 6, 9
DECODERS = [(cell, join) for cell in CELLS for join in ("context-vector", "additive", "dot")] + [
    ("transformer", "cross")
]
ENCODERS = [(cell, "both") for cell in CELLS] + [("transformer", "both")]
TURNED = [(cell, direction) for cell in CELLS for direction in DIRECTIONS if direction != "both"]
CASES = [(*encoder, *decoder) for encoder in ENCODERS for decoder in DECODERS]
CASES += [(*encoder, "gru", join) for encoder in TURNED for join in ("context-vector", "additive")]
ORIGINAL = {  # Vaswani's Transformer, as Marian has it
    "norm": "layer", "norm_placement": "post", "qk_norm": False, "bias": True, "positions": "sinusoidal",
    "embedding_scale": "root", "activation": "silu", "begin": 5,
}  # fmt: skip


def build(encoder: str, direction: str, decoder: str, join: str, **more: object) -> Model:
    """Far from how it starts, so that no part of it does nothing."""
    config = Config(
        encoder, decoder, join, direction, width=16, encoder_layers=2, decoder_layers=2, num_heads=2,
        residual=True, source_vocabulary_size=SOURCE_VOCABULARY, longest=12,
    )  # fmt: skip
    torch.manual_seed(0)
    model = Model(replace(config, **more), VOCABULARY, EOS)
    for parameter in model.parameters():
        parameter.data += torch.randn_like(parameter) * 0.1
    return model.eval()


@pytest.fixture(scope="module", params=[*CASES, ("original",)], ids="-".join)
def model(request: pytest.FixtureRequest) -> Model:
    if request.param == ("original",):
        return build("transformer", "both", "transformer", "cross", **ORIGINAL)
    return build(*request.param)


LENGTHS = np.array([5, 2, 8])
SOURCES = np.random.default_rng(5).integers(0, SOURCE_VOCABULARY, (3, 8))
CONDITION = {"source": SOURCES, "lengths": LENGTHS}
TOKENS = np.random.default_rng(1).integers(0, VOCABULARY, (3, 9))
TOKENS[:, 0] = EOS


def alone(row: int) -> dict[str, np.ndarray]:
    """The condition of one row, without the padding that its mates bring."""
    return {"source": SOURCES[row : row + 1, : LENGTHS[row]], "lengths": LENGTHS[row : row + 1]}


def logits_of(model: Model, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
    logits, state = step(model, tokens, state)
    return to_numpy(logits), state


def run(model: Model, tokens: np.ndarray = TOKENS, condition: dict[str, np.ndarray] = CONDITION) -> np.ndarray:
    return logits_of(model, tokens, model.start(len(tokens), condition))[0]


def test_probabilities_sum_to_one(model):
    np.testing.assert_allclose(np.exp(log_softmax(run(model))).sum(-1), 1, atol=1e-5)


def test_one_step_over_time_equals_single_steps(model):
    state, singles = model.start(3, CONDITION), []
    for t in range(TOKENS.shape[1]):
        logits, state = logits_of(model, TOKENS[:, t : t + 1], state)
        singles.append(logits)
    np.testing.assert_allclose(np.concatenate(singles, 1), run(model), atol=1e-5)


def test_a_later_token_never_changes_an_earlier_prediction_and_earlier_ones_do(model):
    changed = TOKENS.copy()
    changed[:, 4:] = (changed[:, 4:] + 1) % VOCABULARY
    np.testing.assert_array_equal(run(model, changed)[:, :4], run(model)[:, :4])
    assert not np.allclose(run(model, changed)[:, 4:], run(model)[:, 4:], atol=1e-4)


def test_every_word_of_the_source_changes_the_predictions(model):
    for place in range(5):
        changed = SOURCES.copy()
        changed[0, place] = (changed[0, place] + 1) % SOURCE_VOCABULARY
        found = run(model, condition={"source": changed, "lengths": LENGTHS})
        assert not np.allclose(found[0], run(model)[0], atol=1e-7)
        np.testing.assert_allclose(found[1:], run(model)[1:], atol=1e-5)


def test_a_row_depends_neither_on_its_mates_nor_on_padding(model):
    for row in range(3):
        np.testing.assert_allclose(run(model, TOKENS[row : row + 1], alone(row))[0], run(model)[row], atol=1e-5)


def test_what_stands_after_the_end_of_a_source_is_never_read(model):
    changed = SOURCES.copy()
    changed[0, 5:], changed[1, 2:] = 3, 4
    np.testing.assert_allclose(run(model, condition={"source": changed, "lengths": LENGTHS}), run(model), atol=1e-6)


def test_select_rows_agrees_with_recomputation(model):
    _, state = logits_of(model, TOKENS[:, :6], model.start(3, CONDITION))
    rows = np.array([1, 0, 1])
    logits, _ = logits_of(model, TOKENS[rows, 6:], select_rows(state, rows))
    np.testing.assert_allclose(logits, run(model)[rows, 6:], atol=1e-5)


def test_rows_that_come_and_go_are_as_if_alone(model):
    """A short source joins a batch of a long one, read to another length, and outlives it."""
    _, state = logits_of(model, TOKENS[2:, :2], model.start(1, alone(2)))
    _, other = logits_of(model, TOKENS[1:2, :4], model.start(1, alone(1)))
    state = add_rows(state, other)
    logits, state = logits_of(model, np.stack([TOKENS[2, 2:3], TOKENS[1, 4:5]]), state)
    np.testing.assert_allclose(logits[0], run(model)[2, 2:3], atol=1e-5)
    np.testing.assert_allclose(logits[1], run(model)[1, 4:5], atol=1e-5)
    logits, _ = logits_of(model, TOKENS[1:2, 5:7], remove_row(state, 0, 2))
    np.testing.assert_allclose(logits[0], run(model)[1, 5:7], atol=1e-5)


def test_its_own_loss_equals_the_default_and_padding_costs_nothing(model):
    targets = TOKENS[:, 1:].copy()
    targets[0, 5:] = IGNORE
    batch = Batch(TOKENS[:, :-1], targets, CONDITION)
    own, default = model.loss(batch), LanguageModel.loss(model, batch)
    assert own.count == default.count == 21
    assert own.total.item() == pytest.approx(default.total.item(), rel=1e-5)
    parts = [model.loss(Batch(TOKENS[i : i + 1, :-1], targets[i : i + 1], alone(i))) for i in range(3)]
    assert sum(part.total.item() for part in parts) == pytest.approx(own.total.item(), rel=1e-5)


def test_attention_is_over_the_source_and_nothing_else(model):
    weights = model.alignment(CONDITION, TOKENS)
    if model.config.join == "context-vector":
        assert weights is None
        return
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    for row, length in enumerate(LENGTHS):
        assert float(weights[row, :, length:].sum()) == 0
        found = model.alignment(alone(row), TOKENS[row : row + 1])
        np.testing.assert_allclose(weights[row, :, :length], found[0], atol=1e-5)


def test_saved_equals_loaded(model, tmp_path: Path):
    model.save(tmp_path / "model.safetensors")
    loaded = Model.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(run(loaded), run(model))
    assert loaded.config == model.config


@pytest.mark.parametrize(("decoder", "join"), DECODERS)
def test_what_a_batch_says_depends_on_its_source_once_it_is_learned(decoder, join):
    """The same beginning, two sources, two ends: only the source can tell them apart."""
    from chainrule.training.optimizer import Optimizer
    from chainrule.training.recipe import Recipe

    model = build("gru", "both", decoder, join, dropout=0.0)
    model.train()
    condition = {"source": np.array([[1, 2, 3], [3, 2, 1]]), "lengths": np.array([3, 3])}
    batch = Batch(np.array([[EOS, 0, 1], [EOS, 0, 2]]), np.array([[0, 1, EOS], [0, 2, EOS]]), condition)
    optimizer = Optimizer(model, Recipe(optimizer="adamw", learning_rate=0.01))
    for _ in range(120):
        model.loss(batch).mean.backward()
        optimizer.step(1.0)
    assert model.loss(batch).mean.item() < 0.02


def test_every_size_can_be_built_and_started():
    for name in ("tiny", "small", "context-vector", "additive", "dot"):
        model = Model(replace(SIZES[name], width=16, num_heads=2), VOCABULARY, EOS).eval()
        condition = {"source": SOURCES % VOCABULARY, "lengths": LENGTHS}
        np.testing.assert_allclose(np.exp(log_softmax(run(model, TOKENS, condition))).sum(-1), 1, atol=1e-5)


def test_bad_sources_are_refused():
    model = build("gru", "both", "gru", "additive")
    with pytest.raises(UserError, match="the source has 13 tokens but this model reads 12"):
        model.start(1, {"source": np.zeros((1, 13), np.int64), "lengths": np.array([13])})
    with pytest.raises(UserError, match="token ids must be from 0 to 8"):
        model.start(1, {"source": np.array([[9]]), "lengths": np.array([1])})
    with pytest.raises(UserError, match="needs a source"):
        model.start(1)
    with pytest.raises(UserError, match="a gru decoder cannot have the join 'cross'"):
        Config(decoder="gru")


def test_the_token_that_begins_is_read_in_place_of_eos():
    own, usual = (build("transformer", "both", "transformer", "cross", begin=begin) for begin in (5, None))
    begun = np.where(TOKENS == EOS, 5, TOKENS)
    np.testing.assert_array_equal(run(own), run(usual, begun))
    assert not np.allclose(run(own), run(usual), atol=1e-3)


def test_thought_is_an_old_spelling_of_context_vector():
    """In runs that were made with it, and on the command line."""
    old = Config(encoder="gru", decoder="gru", join="thought")
    assert old == Config(encoder="gru", decoder="gru", join="context-vector")
    stored = {"encoder": "gru", "decoder": "gru", "join": "thought"}
    assert from_json(Config, stored, "a run").join == "context-vector"
    assert SIZES["thought"] == SIZES["context-vector"]
