"""The Transformer: every combination of settings however a text is read, and every setting by itself."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from chainrule.analysis.plan.parameters import count_parameters
from chainrule.errors import UserError
from chainrule.layers.activation import ACTIVATIONS
from chainrule.layers.positions import KINDS, sinusoids
from chainrule.models._presets import PUBLISHED
from chainrule.models.contract import Batch
from chainrule.models.transformer import CHOICES, GPT2, LLAMA, SIZES, Config, Model
from chainrule.nest import add_rows, remove_row, select_rows

VOCABULARY, EOS = 50, 49
WORDS = np.random.default_rng(0).integers(0, VOCABULARY, (3, 10))
SMALL: dict[str, Any] = {"width": 16, "num_layers": 2, "num_heads": 4, "hidden_width": 12, "context_length": 16}


def make(config: Config | None = None, deviation: float = 0.4, **settings: Any) -> Model:
    """Every weight random, whatever it would start as, so that no part is zero or does nothing."""
    torch.manual_seed(0)
    model = Model(config or Config(**{**SMALL, **settings}), VOCABULARY, EOS).eval()
    for name, parameter in model.named_parameters():
        around = 1.0 if "norm" in name and name.endswith("weight") else 0.0
        torch.nn.init.normal_(parameter, around, deviation)
    return model


@torch.no_grad()
def predict(model: Model, words: Any) -> Tensor:
    words = np.atleast_2d(words)
    return model.step(words, model.start(len(words)))[0]


def in_pieces(model: Model, words: np.ndarray, sizes: list[int]) -> Tensor:
    state, found, first = model.start(len(words)), [], 0
    with torch.no_grad():
        for size in sizes:
            logits, state = model.step(words[:, first : first + size], state)
            found.append(logits)
            first += size
    return torch.cat(found, 1)


# Every combination of settings

JOINS = [*((kind, "add") for kind in KINDS), ("sinusoidal", "concatenate"), ("learned", "concatenate")]
PLACEMENTS = ("pre", "post")
OTHERS = [
    dict(zip(("num_key_value_heads", "qk_norm", "ngram_order", "logit_cap"), values, strict=True))
    for values in product((4, 2), (False, True), (0, 3), (0.0, 4.0))
]


def table(kind: str, join: str, norm_placement: str) -> list[Config]:
    """All combinations of the others; what works on each vector alone takes turns."""
    turn = 2 * JOINS.index((kind, join)) + PLACEMENTS.index(norm_placement)
    return [
        Config(
            width=8, num_layers=2, num_heads=4, hidden_width=6, context_length=10, ngram_rows=16, positions=kind,
            position_join=join, norm_placement=norm_placement, activation=list(ACTIVATIONS)[index % 6],
            norm=("layer", "rms")[index // 2 % 2], bias=index % 3 == 0, embedding_norm=index % 7 < 3,
            parallel=norm_placement == "pre" and index % 4 < 2, head_width=4, rotary_fraction=(1.0, 0.5)[index % 2],
            attention_bias=CHOICES["attention_bias"][index // 3 % 3], **others,
        )
        for index, others in enumerate(OTHERS, turn)
    ]  # fmt: skip


def test_the_table_has_every_activation_with_every_other_setting():
    configs = [config for (kind, join), place in product(JOINS, PLACEMENTS) for config in table(kind, join, place)]
    assert len(configs) == 8 * 2 * 16
    for name in ("positions", "norm_placement", "num_key_value_heads", "qk_norm", "ngram_order", "logit_cap"):
        values = {getattr(config, name) for config in configs}
        assert len({(getattr(config, name), config.activation) for config in configs}) == 6 * len(values)


@pytest.mark.parametrize("norm_placement", PLACEMENTS)
@pytest.mark.parametrize(("kind", "join"), JOINS)
@torch.no_grad()
def test_however_a_text_is_read_its_predictions_are_the_same(kind: str, join: str, norm_placement: str):
    """Cached = uncached, and causal to the last bit."""
    changed = WORDS.copy()
    changed[:, 6:] = (changed[:, 6:] + 1) % VOCABULARY
    both = torch.from_numpy(np.concatenate([WORDS, changed]))
    for config in table(kind, join, norm_placement):
        model = make(config)
        hidden, _ = model.read(both, None)
        whole, other = model.output(hidden).split(3)
        assert torch.equal(whole[:, :6], other[:, :6]), config
        assert (whole[:, 6:] - other[:, 6:]).abs().max() > 1e-3, config
        found = in_pieces(model, WORDS, [1, 4, 3, 1, 1])
        assert (found - whole).abs().max() < 1e-4, config


@pytest.mark.parametrize("norm_placement", PLACEMENTS)
@pytest.mark.parametrize(("kind", "join"), JOINS)
@torch.no_grad()
def test_rows_of_different_lengths_are_predicted_as_if_alone(kind: str, join: str, norm_placement: str):
    """Three rows join after 2, 5 and 1 tokens, take steps of 1, 3 and 1 together, one leaves, the others go on."""
    for config in table(kind, join, norm_placement):
        model = make(config, deviation=0.2)
        alone = model.output(model.read(torch.from_numpy(WORDS), None)[0])
        read = np.array([2, 5, 1])
        states = [model.step(WORDS[row : row + 1, :count], model.start(1))[1] for row, count in enumerate(read)]
        state, rows = add_rows(add_rows(states[0], states[1]), states[2]), np.arange(3)
        for size in (1, 3, 1, None, 1, 2):
            if size is None:
                state, rows, read = remove_row(state, 1, 3), rows[[0, 2]], read[[0, 2]]
                continue
            places = read[:, None] + np.arange(size)
            logits, state = model.step(WORDS[rows[:, None], places], state)
            torch.testing.assert_close(logits, alone[rows[:, None], places], rtol=0, atol=1e-5)
            read = read + size


@pytest.mark.parametrize("kind", KINDS)
def test_single_steps_and_rows_of_a_batch_agree_to_the_fifth_digit(kind: str):
    model = make(positions=kind, num_key_value_heads=2, qk_norm=True, ngram_order=3, ngram_rows=64, deviation=0.2)
    whole = predict(model, WORDS)
    torch.testing.assert_close(in_pieces(model, WORDS, [1] * 10), whole, rtol=0, atol=1e-5)
    for row in range(3):
        torch.testing.assert_close(predict(model, WORDS[row])[0], whole[row], rtol=0, atol=1e-5)
    with torch.no_grad():
        _, state = model.step(WORDS[:, :4], model.start(3))
        rows = np.array([2, 2, 0, 1])
        logits, _ = model.step(WORDS[rows, 4:], select_rows(state, rows))
    torch.testing.assert_close(logits, whole[rows, 4:], rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_later_token_never_changes_an_earlier_logit_of_a_long_text(kind: str):
    model = make(positions=kind, context_length=300, ngram_order=2, ngram_rows=64)
    words = np.random.default_rng(1).integers(0, VOCABULARY, (2, 300))
    whole = predict(model, words)
    for cut in (1, 31, 128, 299):
        changed = words.copy()
        changed[:, cut:] = (changed[:, cut:] + 7) % VOCABULARY
        found = predict(model, changed)
        assert torch.equal(found[:, :cut], whole[:, :cut])
        assert not torch.equal(found[:, cut], whole[:, cut])


@pytest.mark.parametrize("kind", ["rotary", "learned", "sinusoidal", "none"])
@torch.no_grad()
def test_branches_are_read_as_the_texts_that_they_are(kind: str):
    """After five words come 1, or 2, or 2 and 3; these are taken back, and 4 comes."""
    model = make(positions=kind, num_key_value_heads=2, deviation=0.2)
    read = WORDS[:1, :5]
    _, before = model.step(read, model.start(1))
    sees = torch.ones(3, 8, dtype=torch.bool).tril(5)
    sees[1:, 5] = False
    hidden, after = model.read_branches(torch.tensor([1, 2, 3]), torch.tensor([5, 5, 6]), sees, before)
    found = model.output(hidden)[0]
    for row, branch in enumerate(([1], [2], [2, 3])):
        expected = predict(model, np.append(read[0], branch)[None])[0, -1]
        torch.testing.assert_close(found[row], expected, rtol=0, atol=1e-5)
    goes_on, _ = model.step(np.array([[4]]), model.rewind(after, before, read[:, :0]))
    torch.testing.assert_close(goes_on[0, 0], predict(model, np.append(read[0], 4)[None])[0, -1], rtol=0, atol=1e-5)


# Settings, one by one


def embedded(model: Model, words: np.ndarray) -> Tensor:
    """What the first block reads."""
    seen: list[Tensor] = []
    handle = model.blocks[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    predict(model, words)
    handle.remove()
    return seen[0]


def test_positions_are_added_to_the_embedding_or_set_beside_it():
    table = torch.nn.functional.embedding
    words = torch.from_numpy(WORDS)
    for kind in ("learned", "sinusoidal"):
        added, beside = make(positions=kind), make(positions=kind, position_join="concatenate")
        places = added.positions.weight[:10] if kind == "learned" else sinusoids(0, 10, 16)
        torch.testing.assert_close(embedded(added, WORDS), table(words, added.embedding.weight) + places)
        assert beside.embedding.weight.shape == (VOCABULARY, 12)  # three quarters of 16, positions the last
        found = embedded(beside, WORDS)
        torch.testing.assert_close(found[..., :12], table(words, beside.embedding.weight))
        places = beside.positions.weight[:10] if kind == "learned" else sinusoids(0, 10, 4)
        torch.testing.assert_close(found[..., 12:], places.expand(3, 10, 4))
    for kind in set(KINDS) - {"learned", "sinusoidal"}:
        model = make(positions=kind)
        torch.testing.assert_close(embedded(model, WORDS), table(words, model.embedding.weight))


def test_side_by_side_attention_and_feedforward_read_the_same_vectors():
    model = make(parallel=True, num_layers=1)
    block, x = model.blocks[0], model.embedding(torch.from_numpy(WORDS))
    places = model._positions(0, 10)
    expected = x + block.attention(block.attention_norm(x), places) + block.feedforward(block.feedforward_norm(x))
    torch.testing.assert_close(predict(model, WORDS), model.output(model.norm(expected)))


def test_what_is_not_turned_does_not_know_where_it_stands():
    """Queries that are zero where they are turned see a set of words; others see their order."""
    swapped = WORDS.copy()
    swapped[:, [1, 4]] = swapped[:, [4, 1]]
    for head_width, fraction in ((8, 0.5), (8, 0.25)):
        model = make(num_layers=1, head_width=head_width, rotary_fraction=fraction)
        before = predict(model, swapped)[:, -1] - predict(model, WORDS)[:, -1]
        assert before.abs().max() > 1e-2
        weight = model.blocks[0].attention.query_key_value.weight.detach()
        queries = weight[: 4 * head_width].view(4, head_width, 16)
        queries[:, : int(head_width * fraction)] = 0
        torch.testing.assert_close(predict(model, swapped)[:, -1], predict(model, WORDS)[:, -1], rtol=0, atol=1e-5)


def test_biases_of_attention_alone():
    found = {kind: set(make(attention_bias=kind).state_dict()) for kind in CHOICES["attention_bias"]}
    queries = {f"blocks.{layer}.attention.query_key_value.bias" for layer in range(2)}
    output = {f"blocks.{layer}.attention.output.bias" for layer in range(2)}
    assert found["queries"] - found["as-bias"] == queries
    assert found["all"] - found["as-bias"] == queries | output
    model = make(attention_bias="all", num_layers=1)
    block, x = model.blocks[0], model.embedding(torch.from_numpy(WORDS))
    places = model._positions(0, 10)
    whole = block.attention(x, places)
    with torch.no_grad():
        bias = block.attention.output.bias.clone()
        block.attention.output.bias.zero_()
    torch.testing.assert_close(block.attention(x, places) + bias, whole)


def test_hashed_ngrams_and_the_norm_of_the_embedding():
    words = torch.from_numpy(WORDS)
    model = make(ngram_order=3, ngram_rows=32, embedding_norm=True)
    vectors, _ = model.ngrams(words, model.ngrams.start(3))
    joined = model.embedding(words) + vectors
    expected = joined / joined.square().mean(-1, keepdim=True).sqrt()
    torch.testing.assert_close(embedded(model, WORDS), expected)


def test_capped_logits_are_cap_times_tanh():
    free, capped = make(), make(logit_cap=3.0)
    logits = predict(free, WORDS)
    assert logits.abs().max() > 3
    torch.testing.assert_close(predict(capped, WORDS), 3 * torch.tanh(logits / 3))


def test_logits_are_products_with_the_embedding_when_tied():
    model = make(tied=True)
    hidden = torch.randn(5, 16)
    torch.testing.assert_close(model.output(hidden), hidden @ model.embedding.weight.T)
    assert "unembedding.weight" not in model.state_dict()


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("norm_placement", ["pre", "post"])
def test_a_last_norm_only_where_norms_come_before(norm_placement: str, norm: str):
    """Post-norm blocks end in one already; and LayerNorm has a bias only where everything has."""
    for bias in (True, False):
        model = make(norm_placement=norm_placement, norm=norm, bias=bias)
        norms = [name for name in model.state_dict() if "norm" in name]
        per_norm = 2 if norm == "layer" and bias else 1
        assert len(norms) == (5 if norm_placement == "pre" else 4) * per_norm
        assert ("norm.weight" in norms) == (norm_placement == "pre")
        assert any(name.endswith("output.bias") for name in model.state_dict()) == bias


def test_swiglu_is_8_thirds_wide_and_the_others_four_times():
    assert [Config(width=w, activation="swiglu").width_of_feedforward for w in (48, 64, 96, 768)] == [
        128, 176, 256, 2048,
    ]  # fmt: skip
    assert Config(width=64).width_of_feedforward == 256
    assert Config(width=64, activation="swiglu", hidden_width=10).width_of_feedforward == 10


def test_zero_initialisation_makes_blocks_the_identity_and_predictions_uniform():
    torch.manual_seed(0)
    model = Model(Config(**SMALL, bias=True), VOCABULARY, EOS)
    hidden, _ = model.read(torch.from_numpy(WORDS), None)
    torch.testing.assert_close(hidden, model.norm(model.embedding(torch.from_numpy(WORDS))), rtol=0, atol=0)
    assert not predict(model, WORDS).any()
    assert model.loss(Batch(WORDS[:, :-1], WORDS[:, 1:])).mean.item() == pytest.approx(math.log(VOCABULARY), abs=1e-5)


def test_normal_initialisation_is_that_of_gpt2():
    """0.02 everywhere, 0.02/√(2 layers) into the residual stream, biases 0, gains 1."""
    torch.manual_seed(0)
    model = Model(GPT2(width=128, num_layers=8, num_heads=4, context_length=200), 1000, EOS)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            assert torch.equal(parameter, torch.full_like(parameter, float(name.endswith("norm.weight")))), name
        else:
            expected = 0.02 / 4 if name.endswith("output.weight") else 0.02
            assert parameter.std().item() == pytest.approx(expected, rel=0.03), name
            assert parameter.mean().item() == pytest.approx(0, abs=expected / 20), name


def test_dropout_is_on_while_training_and_off_after():
    batch = Batch(WORDS[:, :-1], WORDS[:, 1:])
    plain, model = make(), make(dropout=0.3)
    assert torch.equal(predict(model.eval(), WORDS), predict(plain, WORDS))
    assert torch.equal(model.loss(batch).total, plain.loss(batch).total)
    model.train()
    first, second = model.loss(batch).total, model.loss(batch).total
    assert first != second
    torch.manual_seed(5)
    third = model.loss(batch).total
    torch.manual_seed(5)
    assert model.loss(batch).total == third


def test_a_text_longer_than_the_context_is_refused():
    model = make()
    long = np.tile(WORDS, 3)
    sentence = "^the text has {} tokens but this model reads 16; shorten it, or read it in windows$"
    with pytest.raises(UserError, match=sentence.format(30)):
        predict(model, long)
    with pytest.raises(UserError, match=sentence.format(17)):
        model.loss(Batch(long[:, :17], long[:, :17]))
    _, state = model.step(long[:, :16], model.start(3))
    with pytest.raises(UserError, match=sentence.format(17)):
        model.step(long[:, 16:17], state)
    _, state = model.step(long[:, :10], model.start(3))
    with pytest.raises(UserError, match=sentence.format(18)):
        model.step(long[:, 10:18], state)


def test_a_row_that_would_pass_the_context_is_refused_with_its_batch():
    """15 and 3 tokens of 16: one more is fine, two are not, and once the long row has left they are."""
    model = make()
    _, state = model.step(np.tile(WORDS, 2)[:1, :15], model.start(1))
    state = add_rows(state, model.step(WORDS[1:2, :3], model.start(1))[1])
    model.step(WORDS[:2, :1], state)
    with pytest.raises(UserError, match="^the text has 17 tokens but this model reads 16"):
        model.step(WORDS[:2, :2], state)
    logits, _ = model.step(WORDS[1:2, 3:5], remove_row(state, 0, 2))
    torch.testing.assert_close(logits, predict(model, WORDS[1, :5])[:, 3:], rtol=0, atol=1e-4)


def test_nothing_read_is_nothing_predicted():
    for order in (0, 3):
        model = make(ngram_order=order, ngram_rows=16)
        logits, state = model.step(np.zeros((2, 0), np.int64), model.start(2))
        assert logits.shape == (2, 0, VOCABULARY)
        torch.testing.assert_close(model.step(WORDS[:2], state)[0], predict(model, WORDS[:2]))
        assert model.score(np.array([EOS])).tolist() == model.score(np.array([], np.uint32)).tolist() == []


@pytest.mark.parametrize("size", sorted(SIZES.keys() - PUBLISHED.keys()))
def test_parameters_are_counted_as_planned(size: str):
    with torch.device("meta"):
        model = Model(SIZES[size], VOCABULARY, EOS)
    assert count_parameters(SIZES[size], VOCABULARY).total == model.num_parameters


def test_profiles_differ_from_the_default_in_what_they_are_named_for():
    gpt2, llama = GPT2(), LLAMA()
    assert gpt2 == replace(
        Config(), norm="layer", activation="gelu-tanh", positions="learned", tied=True, bias=True,
        initialisation="normal",
    )  # fmt: skip
    assert llama == replace(Config(), activation="swiglu", initialisation="normal")
    assert (llama.norm, llama.positions, llama.tied, llama.bias) == ("rms", "rotary", False, False)


ONE_OF = "must be one of"
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"width": 0}, "width must be at least 1, got 0"),
    ({"num_layers": 0}, "num_layers must be at least 1, got 0"),
    ({"num_heads": 0}, "num_heads must be at least 1, got 0"),
    ({"num_heads": -4}, "num_heads must be at least 1, got -4"),
    ({"context_length": 0}, "context_length must be at least 1, got 0"),
    ({"width": 30}, "width must be a multiple of num_heads, got 30 and 4"),
    ({"num_key_value_heads": 3}, "num_heads must be a multiple of num_key_value_heads, got 4 and 3"),
    ({"num_key_value_heads": 8}, "num_heads must be a multiple of num_key_value_heads, got 4 and 8"),
    ({"width": 12}, "rotary positions need an even head width, got 3"),
    ({"head_width": 7}, "rotary positions need an even head width, got 7"),
    ({"norm": "batch"}, f"norm {ONE_OF} layer, rms, got 'batch'"),
    ({"norm_placement": "before"}, f"norm_placement {ONE_OF} pre, post, got 'before'"),
    ({"activation": "gelu_tanh"}, f"activation {ONE_OF} relu, silu, gelu, gelu-tanh, relu-squared, swiglu, "
     r"got 'gelu_tanh'; did you mean 'gelu-tanh'\?"),
    ({"positions": "rotatory"}, f"positions {ONE_OF} none, sinusoidal, learned, rotary, alibi, relative, "
     r"got 'rotatory'; did you mean 'rotary'\?"),
    ({"position_join": "concat"}, rf"position_join {ONE_OF} add, concatenate, got 'concat'; "
     r"did you mean 'concatenate'\?"),
    ({"initialisation": "xavier"}, f"initialisation {ONE_OF} normal, zero, got 'xavier'"),
    ({"positions": "learned", "position_join": "concatenate", "tied": True},
     "concatenated positions leave the embedding narrower than the output; set tied=false"),
    ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
    ({"dropout": -0.1}, "dropout must be at least 0 and below 1, got -0.1"),
    ({"dropout": math.nan}, "dropout must be at least 0 and below 1, got nan"),
    ({"ngram_order": 1}, "ngram_order must be 0 or at least 2, got 1"),
    ({"ngram_order": 3, "ngram_rows": 1000}, "ngram_rows must be a power of two, got 1000"),
    ({"ngram_order": 3, "ngram_rows": -4}, "ngram_rows must be a power of two, got -4"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "sentence"), REFUSED, ids=lambda value: str(value)[:40])
def test_bad_settings_are_refused_in_one_sentence(settings: dict[str, Any], sentence: str):
    with pytest.raises(UserError, match=f"^{sentence}$"):
        Config(**settings)


UNCHECKED: list[dict[str, Any]] = [
    {"ngram_order": 2, "ngram_rows": 0},
    {"head_width": -4},
    {"hidden_width": -3},
    {"num_key_value_heads": -2},
    {"rotary_base": 0.0},
    {"rotary_base": -5.0},
    {"norm_epsilon": -1.0},
    {"logit_cap": math.nan},
    {"logit_cap": -3.0},
    {"width": 1, "num_heads": 1, "positions": "learned", "position_join": "concatenate"},
]


@pytest.mark.parametrize("settings", UNCHECKED, ids=str)
def test_settings_that_make_no_model_are_refused(settings: dict[str, Any]):
    with pytest.raises(UserError):
        Config(**settings)
