"""Explanations of models that learn: what is taken apart adds up again, and is what the model really computed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import chainrule
from chainrule import registry
from chainrule.analysis.explain.gradient import gradient_times_input
from chainrule.analysis.explain.importance import MOST_LEFT_OUT, leave_out
from chainrule.models._gates import within
from chainrule.models._recorded import read_recorded
from chainrule.models._token_gradients import token_gradients

VOCABULARY, EOS = 29, 28
IDS = np.append([EOS], np.random.default_rng(0).integers(0, EOS, 19)).astype(np.int64)


PLAIN = {"ngram_order": 0, "embedding_norm": False}  # a Transformer whose stream begins with its embeddings alone


def build(name: str, **changes: Any) -> Any:
    """With weights far from zero everywhere, so that nothing adds up by being nothing."""
    module = registry.find("chainrule.models", name, "model")
    torch.manual_seed(1)
    model = module.Model(replace(module.SIZES["tiny"], **changes), VOCABULARY, EOS).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3 + (1.0 if parameter.ndim == 1 else 0.0))
    return model


def logits(model: Any, ids: np.ndarray = IDS) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model.step(torch.from_numpy(ids)[None], model.start(1))[0][0, -1]
    return found


TRANSFORMERS: list[dict[str, Any]] = [
    {},
    {"norm": "layer", "bias": True, "positions": "learned", "tied": True, "activation": "gelu-tanh"},
    {"norm_placement": "post", "norm": "layer", "bias": True, "positions": "sinusoidal"},
    {"norm_placement": "post", "norm": "rms", "activation": "swiglu"},
    {"num_heads": 4, "num_key_value_heads": 2, "qk_norm": True, "embedding_norm": True, "ngram_order": 3},
    {"positions": "learned", "position_join": "concatenate", "embedding_norm": True, "ngram_order": 2},
    {"positions": "alibi", "logit_cap": 5.0, "output_bias": True},
    {"positions": "relative", "num_layers": 3},
    {"parallel": True, "norm": "layer", "bias": True, "rotary_fraction": 0.25, **PLAIN},
    {"parallel": True, "attention_bias": "all"},
]


@pytest.mark.parametrize("changes", TRANSFORMERS, ids=lambda changes: ",".join(map(str, changes.values())) or "plain")
def test_parts_of_a_transformer_add_up_to_the_logit(changes: dict[str, Any]):
    model = build("transformer", **changes)
    for token in (0, 13, EOS):
        inside = model.look_inside(IDS, token, str)
        assert inside.capped_logit == pytest.approx(float(logits(model)[token]), abs=1e-5)
        total = sum(each.logit for each in inside.contributions)
        assert total == pytest.approx(inside.logit, abs=1e-5 * max(1.0, abs(inside.logit)))
        if not model.config.logit_cap:
            assert inside.logit == pytest.approx(inside.capped_logit, abs=1e-6)
    heads = {(each.layer, each.part) for each in inside.contributions if each.part.startswith("head")}
    assert len(heads) == model.config.num_layers * model.config.num_heads


@pytest.mark.parametrize("changes", TRANSFORMERS, ids=lambda changes: ",".join(map(str, changes.values())) or "plain")
def test_attention_weights_are_those_that_mixed_the_values(changes: dict[str, Any]):
    model = build("transformer", **changes)
    inside = model.look_inside(IDS, 0, str)
    _, calls = read_recorded(model, IDS)
    for weights, block in zip(torch.from_numpy(inside.attention), model.blocks, strict=True):
        attention = block.attention
        value = attention.project(*calls[attention].arguments[:2])[2][0]
        value = value.repeat_interleave(attention.num_heads // attention.num_key_value_heads, 0)
        mixed = (weights @ value).transpose(0, 1).flatten(1)  # (time, heads * head_width)
        torch.testing.assert_close(mixed, calls[attention.output].arguments[0][0], atol=1e-5, rtol=1e-4)


def test_the_lens_at_the_last_layer_is_the_model_and_at_the_first_its_embeddings():
    model = build("transformer", num_layers=3, **PLAIN)
    inside = model.look_inside(IDS, 5, str)
    assert len(inside.lens) == 4
    chances = logits(model).softmax(-1)
    assert inside.lens[-1][-1].token == str(int(chances.argmax()))
    assert inside.lens[-1][-1].probability == pytest.approx(float(chances.max()), abs=1e-6)
    assert inside.lens[-1][-1].probability_of_token == pytest.approx(float(chances[5]), abs=1e-6)
    place = len(IDS) - 5
    with torch.no_grad():
        first = model.output(model.norm(model.embedding(torch.tensor(IDS[place : place + 1])))).softmax(-1)[0]
    guess = inside.lens[0][place - len(IDS)]
    assert guess.probability == pytest.approx(float(first.max()), abs=1e-6)
    assert guess.probability_of_token == pytest.approx(float(first[IDS[place + 1]]), abs=1e-6)


@pytest.mark.parametrize("name", ["elman", "ugrnn", "gru", "lstm"])
def test_gates_give_the_states_that_the_cells_gave(name: str):
    model = build(name, num_layers=2, residual=True)
    inside = model.look_inside(IDS, 3, str)
    assert len(inside.layers) == 2
    for layer in inside.layers:
        h = layer.state["h"]
        before = np.vstack([np.zeros_like(h[:1]), h[:-1]])
        found = {name.split()[0]: values for name, values in layer.gates.items()}
        if name == "ugrnn":
            again = found["G"] * before + (1 - found["G"]) * found["R"]
        elif name == "gru":
            again = (1 - found["z"]) * found["n"] + found["z"] * before
        elif name == "lstm":
            again = found["o"] * np.tanh(layer.state["c"])
        else:
            assert not found
            continue
        np.testing.assert_allclose(again, h, atol=2e-6)


@pytest.mark.parametrize("name", ["elman", "ugrnn", "gru", "lstm"])
def test_influence_is_the_slope_of_the_prediction(name: str):
    """By finite differences: the embedding of one token is moved a little in a random direction."""
    model = build(name).double()
    ids = IDS[:7]
    vectors = model.embedding.weight.detach()[ids]
    slopes = token_gradients(model, ids, 3)[0].slope
    inside = model.look_inside(ids, 3, str)
    assert inside.influence == pytest.approx(slopes.norm(dim=-1).tolist())
    torch.manual_seed(0)
    for place in range(len(ids)):
        direction = torch.randn(vectors.shape[1], dtype=torch.float64)

        def moved(by: float, place: int = place, direction: torch.Tensor = direction) -> float:
            embedded = vectors.clone()
            embedded[place] += by * direction
            with torch.no_grad():
                hidden, _ = model.recurrent(embedded[None] * model.config.input_scale, None)
                return float(model.output(hidden[0, -1]).log_softmax(-1)[3])

        slope = (moved(1e-5) - moved(-1e-5)) / 2e-5
        assert slope == pytest.approx(float(direction @ slopes[place]), rel=1e-5, abs=1e-9)


def test_within_counts_the_latest_tokens():
    assert within(np.array([1.0, 0.0, 1.0, 2.0]), 0.5) == 1
    assert within(np.array([1.0, 0.0, 1.0, 2.0]), 0.75) == 2
    assert within(np.array([1.0, 0.0, 1.0, 2.0]), 0.9) == 4
    assert within(np.zeros(3), 0.5) == 0


@pytest.mark.parametrize("length", [1, 2, 20])
@pytest.mark.parametrize(
    ("name", "changes"), [("mlp", {}), ("mlp", {"is_direct": False}), ("bow", {})], ids=["mlp", "indirect", "bow"]
)
def test_places_add_up_to_the_logit(name: str, changes: dict[str, Any], length: int):
    model = build(name, **changes)
    inside = model.look_inside(IDS[:length], 4, str)
    assert inside.logit == pytest.approx(float(logits(model, IDS[:length])[4]), abs=1e-5)
    assert inside.contributions is not None and inside.constant is not None
    assert sum(inside.contributions) + inside.constant == pytest.approx(inside.logit, abs=1e-5)
    reach = model.config.order - 1 if name == "mlp" else length
    assert [each != 0 for each in inside.contributions] == [place >= length - reach for place in range(length)]


@pytest.mark.parametrize("kind", ["softmax", "uniform"])
def test_weights_of_the_attention_model_mix_its_values(kind: str):
    model = build("attention", weights=kind, has_residuals=False, has_layer_norm=False)
    inside = model.look_inside(IDS, 4, str)
    with torch.no_grad():
        x = model._embed(torch.from_numpy(IDS)[None], 0)
        value = model._project(x)[2][0]  # (heads, time, head_width)
        mixed = torch.einsum("ht,htw->hw", torch.tensor(inside.weights), value).flatten()
        again = model.output(F.gelu(model.hidden(mixed)))[4]
    assert float(again) == pytest.approx(inside.logit, abs=1e-5)
    if kind == "uniform":
        assert inside.weights == [pytest.approx([1 / len(IDS)] * len(IDS))] * model.config.num_heads


@pytest.mark.parametrize("name", ["mlp", "bow", "attention", "elman", "lstm", "transformer"])
def test_leaving_out_is_reading_without(name: str):
    model = build(name)
    found = leave_out(model, IDS, 7)
    whole = float(logits(model).log_softmax(-1)[7])
    for place in range(1, len(IDS)):
        without = float(logits(model, np.delete(IDS, place)).log_softmax(-1)[7])
        left_out = found[place - 1]
        assert left_out is not None
        assert left_out == pytest.approx(whole - without, abs=1e-5)
    if name == "mlp":
        assert found[0] == 0


def test_of_a_long_text_the_latest_are_left_out():
    model = build("lstm")
    ids = np.append([EOS], np.random.default_rng(1).integers(0, EOS, MOST_LEFT_OUT + 9)).astype(np.int64)
    found = leave_out(model, ids, 7)
    assert found[:9] == [None] * 9
    whole = float(logits(model, ids).log_softmax(-1)[7])
    for place in (10, len(ids) - 1):
        without = float(logits(model, np.delete(ids, place)).log_softmax(-1)[7])
        assert found[place - 1] == pytest.approx(whole - without, abs=1e-5)


@pytest.mark.parametrize("name", ["mlp", "bow", "attention", "gru", "transformer"])
def test_gradient_times_input_adds_up_to_what_the_text_does(name: str):
    """Σ = log p(token) less log p(token) of a text whose vectors are all the average one."""
    model = build(name, **({"embedding_norm": False} if name == "transformer" else {})).double()
    found = gradient_times_input(model, IDS, 7, steps=400)
    assert found is not None
    average = model.embedding.weight.detach()[:VOCABULARY].mean(0)
    tables = [model.embedding.register_forward_hook(lambda module, arguments, output: average.expand_as(output))]
    if name == "transformer":
        nothing = lambda module, arguments, output: (torch.zeros_like(output[0]), output[1])  # noqa: E731
        tables.append(model.ngrams.register_forward_hook(nothing))
    blank = float(logits(model).log_softmax(-1)[7])
    for handle in tables:
        handle.remove()
    whole = float(logits(model).log_softmax(-1)[7])
    if name == "mlp":  # what stands before the text counts too, and is not asked for
        assert len(IDS) > model.config.order
    assert found.sum() == pytest.approx(whole - blank, rel=1e-3)


def test_vectors_of_ngrams_are_credited_to_their_tokens():
    model = build("transformer", ngram_order=3, embedding_norm=True).double()
    both = gradient_times_input(model, IDS, 7, steps=1)
    assert both is not None
    of_tokens, of_ngrams = token_gradients(model, IDS, 7, 0.5)
    assert (of_tokens.table, of_ngrams.table) == (model.embedding, model.ngrams)
    of_embeddings = (of_tokens.difference * of_tokens.slope).sum(-1).numpy()
    vectors, slopes = of_ngrams.difference, of_ngrams.slope
    assert (both - of_embeddings).sum() == pytest.approx(float((vectors * slopes).sum()), rel=1e-5)
    last = model.ngrams.weight.detach()[_places(model, IDS)[-1]]  # (orders, width): of 2 and of 3 tokens
    by_order = (last * slopes[-1]).sum(-1)
    assert (both - of_embeddings)[-1] == pytest.approx(float(by_order[0] / 2 + by_order[1] / 3), rel=1e-5)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_a_text_shorter_than_the_longest_ngram_shares_out_the_same_sum(length: int):
    """An n-gram that reaches back beyond the text counts in equal parts for the tokens that there are."""
    model = build("transformer", ngram_order=5, embedding_norm=True).double()
    ids = IDS[:length]
    both = gradient_times_input(model, ids, 7, steps=1)
    assert both is not None
    of_tokens, of_ngrams = token_gradients(model, ids, 7, 0.5)
    of_embeddings = (of_tokens.difference * of_tokens.slope).sum(-1).numpy()
    places = _places(model, ids)  # (time, orders)
    expected = np.zeros(length)
    for end in range(length):
        for n, place in enumerate(places[end].tolist(), 2):
            first = max(end - n + 1, 0)
            credit = float((model.ngrams.weight.detach()[place] * of_ngrams.slope[end]).sum())
            expected[first : end + 1] += credit / (end + 1 - first)
    np.testing.assert_allclose(both - of_embeddings, expected, rtol=1e-5, atol=1e-9)


def _places(model: Any, ids: np.ndarray) -> torch.Tensor:
    """The rows of the table that each position adds up: (time, orders)."""
    seen: list[torch.Tensor] = []
    real = F.embedding_bag

    def spy(places: torch.Tensor, *arguments: Any, **settings: Any) -> torch.Tensor:
        seen.append(places)
        return real(places, *arguments, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "embedding_bag", spy)
        logits(model, ids)
    return seen[0]


def test_leaving_out_and_gradients_agree_in_sign_on_what_matters_most(tmp_path: Path):
    """Of models that have learned something: a token decides what comes after the next one."""
    generator = np.random.default_rng(0)
    words = ["ab", "cd", "ba", "dc"]
    lines = [" ".join(generator.choice(words, 8)) for _ in range(400)]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    for name, settings in (("mlp", {}), ("gru", {"width": 32}), ("transformer", {})):
        run = chainrule.train(
            "text.txt", model=name, size="tiny", tokenizer="characters", unit="line", steps=150, batch_size=8,
            window=16, path=tmp_path / name, **settings,
        )  # fmt: skip
        agreed = 0
        for line in lines[:20]:
            found = run.explain(line[:-1], token=line[-1])  # a, b, c or d: what follows from the letter before
            assert found.importance.gradient is not None
            left_out = [each or 0.0 for each in found.importance.left_out]
            place = int(np.abs(left_out).argmax())
            agreed += left_out[place] * found.importance.gradient[place] > 0
        assert agreed >= 15, name
