"""What models that learn by gradient share: scores of long streams, and files."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from chainrule.errors import UserError
from chainrule.layers.softmax import Sampler
from chainrule.models import _neural, attention, bow, elman, lstm, mlp, transformer
from chainrule.models._neural import NeuralModel
from chainrule.models.contract import IGNORE, Batch, LanguageModel
from chainrule.storage import load_arrays, save_arrays

VOCABULARY, EOS = 9, 8


def randomised(model: Any) -> Any:
    """In no state that training starts from; the same each time."""
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.5
    return model.eval()


def make(context_length: int = 6, **settings: Any) -> transformer.Model:
    config = transformer.Config(
        **{"width": 8, "num_layers": 1, "num_heads": 2, "hidden_width": 8, "context_length": context_length, **settings}
    )
    return randomised(transformer.Model(config, VOCABULARY, EOS))


def stream(length: int) -> np.ndarray:
    return np.random.default_rng(length).integers(0, VOCABULARY, length).astype(np.uint32)


# Scores


class Counter(NeuralModel):
    """Its score of a token tells how many tokens it read before it: log p = -log(1 + e^-n) for n of them."""

    def __init__(self, context_length: int | None):
        super().__init__(SimpleNamespace(), 2, 0)
        self.context_length = context_length
        self.weight = torch.nn.Parameter(torch.ones(1))

    def start(self, batch_size: int, condition: Any = None) -> Any:
        return torch.zeros(batch_size, 1)

    def read(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        before = 0 if state is None else state[:, :, None]
        assert self.context_length is None or tokens.shape[1] <= self.context_length
        hidden = before + torch.arange(1.0, tokens.shape[1] + 1).expand(tokens.shape)[..., None]
        return hidden, None if state is None else state + tokens.shape[1]

    def output(self, hidden: Tensor) -> Tensor:
        return torch.cat([self.weight * hidden, torch.zeros_like(hidden)], -1)

    def counts(self, length: int) -> list[int]:
        scores = self.score(np.zeros(length, np.uint32)).astype(np.float64)
        return [round(-math.log(math.expm1(-score))) for score in scores]


@pytest.mark.parametrize(("length", "context_length"), [(1, 6), (2, None), (7, 6), (8, 6), (12, None), (40, 6)])
def test_entropies_are_of_the_predictions_that_are_scored(length: int, context_length: int | None):
    """The counter's prediction after n tokens is log(1 + e^-n) + n / (1 + e^n) nats unsure."""
    model = Counter(context_length)
    n = np.array(model.counts(length))
    expected = np.log1p(np.exp(-n)) + n / (1 + np.exp(n))
    np.testing.assert_allclose(model.entropies(np.zeros(length, np.uint32)), expected, rtol=1e-4, atol=1e-6)


def windows(length: int, context: int) -> list[int]:
    """How many tokens each prediction of a stream rests on.

    The first window counts whole; those after it each begin half a context later, and the last one ends with the text.
    """
    stride, total = max(context // 2, 1), max(length - 1, 0)
    seen, end = list(range(1, min(context, total) + 1)), context
    while end < total:
        begin = min(end + stride, total) - context
        seen += [place + 1 - begin for place in range(end, begin + context)]
        end = begin + context
    return seen


def test_windows_by_hand():
    assert windows(8, 4) == [1, 2, 3, 4, 3, 4, 4]  # 0-3, 2-5, 3-6
    assert windows(10, 4) == [1, 2, 3, 4, 3, 4, 3, 4, 4]
    assert windows(9, 5) == [1, 2, 3, 4, 5, 4, 5, 5]
    assert windows(4, 1) == [1, 1, 1]


@pytest.mark.parametrize("at_once", [1, 7, 4096])
@pytest.mark.parametrize("context", [1, 2, 3, 4, 5, 8])
def test_every_token_is_predicted_from_at_least_half_a_context(context: int, at_once: int, monkeypatch):
    """For every length about every boundary, and however many windows are read at once."""
    monkeypatch.setattr(_neural, "SCORED_AT_ONCE", at_once)
    model = Counter(context)
    for length in range(4 * context + 4):
        found = model.counts(length)
        assert found == windows(length, context), length
        assert all(min(place, math.ceil(context / 2)) <= count for place, count in enumerate(found, 1)), length


@pytest.mark.parametrize("at_once", [1, 3, 4096])
def test_a_model_of_any_context_reads_a_stream_from_end_to_end(at_once: int, monkeypatch):
    monkeypatch.setattr(_neural, "SCORED_AT_ONCE", at_once)
    for length in (0, 1, 2, 3, 4, 9, 10, 11):
        assert Counter(None).counts(length) == list(range(1, length))


@pytest.mark.parametrize("settings", [{}, {"ngram_order": 3, "ngram_rows": 16}, {"positions": "learned"}], ids=str)
@pytest.mark.parametrize("context", [1, 5, 6])
@torch.no_grad()
def test_scores_are_those_of_windows_computed_one_by_one(context: int, settings: dict[str, Any]):
    model = make(context, **settings)
    half = max(context // 2, 1)
    for length in {1, 2, context, *(context + 1 + more for more in (0, 1, half, half + 1, 2 * half, 2 * half + 1))}:
        ids = stream(length)
        expected = []
        for target, count in enumerate(windows(length, context), 1):
            window = ids[None, target - count : target].astype(np.int64)
            logits, _ = model.step(window, model.start(1))
            expected.append(float(logits[0, -1].log_softmax(-1)[int(ids[target])]))
        assert model.score(ids).tolist() == pytest.approx(expected, abs=1e-5), length


def test_a_recurrent_model_scores_the_same_in_pieces(monkeypatch):
    model = randomised(lstm.Model(lstm.SIZES["tiny"], VOCABULARY, EOS))
    ids = stream(40)
    whole = model.score(ids)
    np.testing.assert_allclose(LanguageModel.score(model, ids), whole, atol=1e-5)
    monkeypatch.setattr(_neural, "SCORED_AT_ONCE", 7)
    np.testing.assert_allclose(model.score(ids), whole, atol=1e-5)


def test_scoring_drops_nothing_out_and_leaves_the_model_as_it_was():
    model = make(dropout=0.5)
    ids = stream(20)
    expected = model.score(ids)
    assert not model.training
    model.train()
    np.testing.assert_array_equal(model.score(ids), expected)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_refused_stream_leaves_the_model_as_it_was():
    model = make().train()
    with pytest.raises(UserError, match="token ids must be from 0 to 8, got 0 to 9"):
        model.score(np.array([0, 9]))
    assert model.training


def test_losses_leave_out_what_is_not_asked():
    model = make()
    ids = stream(13)[:12].astype(np.int64).reshape(2, 6)
    targets = np.roll(ids, -1, 1)
    targets[0, 2] = targets[1, 4:] = IGNORE
    with torch.no_grad():
        logits = model.step(ids, model.start(2))[0].log_softmax(-1)
        loss = model.loss(Batch(ids, targets))
    asked = [(row, t) for row, t in np.ndindex(2, 6) if targets[row, t] != IGNORE]
    assert loss.count == len(asked) == 9
    assert loss.total.item() == pytest.approx(
        -sum(float(logits[row, t, targets[row, t]]) for row, t in asked), abs=1e-5
    )


# Files

KEY = "blocks.0.attention.output.weight"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    make(ngram_order=2, ngram_rows=16).save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def test_a_loaded_model_is_the_saved_one_and_can_be_trained_on(saved: Path):
    model, loaded = make(ngram_order=2, ngram_rows=16), transformer.Model.load(saved)
    assert (loaded.config, loaded.vocabulary_size, loaded.eos) == (model.config, VOCABULARY, EOS)
    assert not loaded.training
    np.testing.assert_array_equal(loaded.score(stream(30)), model.score(stream(30)))
    batch = Batch(stream(7)[None, :6].astype(np.int64), stream(7)[None, 1:].astype(np.int64))
    for each in (model, loaded):
        each.loss(batch).total.backward()
    for ours, theirs in zip(loaded.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours.grad.to_dense(), theirs.grad.to_dense())
    with torch.no_grad():
        loaded.blocks[0].attention.output.weight += 1  # its own memory, not the file's
    np.testing.assert_array_equal(transformer.Model.load(saved).score(stream(30)), model.score(stream(30)))


def test_loading_draws_no_random_numbers(saved: Path):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    transformer.Model.load(saved)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_tied_matrix_is_stored_once_and_stays_tied(tmp_path: Path):
    make(tied=True).save(tmp_path / "model")
    loaded = transformer.Model.load(tmp_path / "model")
    assert "unembedding.weight" not in load_arrays(tmp_path / "model")[0]
    hidden = torch.randn(3, 8)
    torch.testing.assert_close(loaded.output(hidden), hidden @ loaded.embedding.weight.T)


def refused(path: Path, model: Any = transformer.Model) -> str:
    with pytest.raises(UserError) as caught:
        model.load(path)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert str(path) in sentence
    assert len(sentence) < 250 + len(str(path))
    return sentence


def rewrite(path: Path, arrays: dict[str, np.ndarray | None], facts: dict[str, Any]) -> None:
    """With these arrays and facts in place of the stored ones; None takes one away."""
    before, metadata = load_arrays(path)
    changed = {name: np.array(array) for name, array in before.items()} | arrays
    known = json.loads(metadata["model"])
    config = known["config"] | facts.pop("config", {})
    metadata["model"] = json.dumps(known | facts | {"config": config})
    save_arrays(path, {name: array for name, array in changed.items() if array is not None}, metadata)


DAMAGED_ARRAYS: dict[str, dict[str, Any]] = {
    "missing": {KEY: None},
    "one too many": {"blocks.7.attention.output.weight": np.zeros((8, 8), np.float32)},
    "too few rows": {KEY: np.zeros((7, 8), np.float32)},
    "flat": {KEY: np.zeros(64, np.float32)},
    "whole numbers": {KEY: np.zeros((8, 8), np.int64)},
}


@pytest.mark.parametrize("arrays", DAMAGED_ARRAYS.values(), ids=DAMAGED_ARRAYS)
def test_arrays_of_another_model_are_refused(saved: Path, arrays: dict[str, Any]):
    rewrite(saved, arrays, {})
    assert "does not hold such a model" in refused(saved)


@pytest.mark.parametrize(
    "facts",
    [
        {"vocabulary_size": 10},
        {"vocabulary_size": -1},
        {"vocabulary_size": "9"},
        {"vocabulary_size": 10**30},
        {"config": {"norm": "batch"}},
        {"config": {"colour": "red"}},
        {"config": {"width": "8"}},
        {"config": {"width": 10**12}},
        {"config": {"num_layers": 2}},
        {"config": {"num_heads": 3}},
        {"config": {"hidden_width": -3}},
        {"config": {"tied": True}},
        {"config": {"ngram_rows": 32}},
        {"config": {"positions": "learned"}},
    ],
    ids=str,
)
def test_facts_that_contradict_the_arrays_are_refused(saved: Path, facts: dict[str, Any]):
    rewrite(saved, {}, dict(facts))
    assert "does not hold such a model" in refused(saved)


@pytest.mark.parametrize(
    ("arrays", "facts"),
    [
        ({KEY: np.zeros((8, 8), np.float64)}, {}),
        ({KEY: np.zeros((8, 8), np.float16)}, {}),
        ({}, {"eos": 9}),
        ({}, {"eos": -1}),
        ({}, {"eos": "8"}),
        ({}, {"config": {"logit_cap": "0"}}),
        ({}, {"config": {"rotary_base": None}}),
    ],
    ids=lambda value: str(value)[:50],
)
def test_files_that_would_only_fail_later_are_refused(saved: Path, arrays: dict[str, Any], facts: dict[str, Any]):
    rewrite(saved, arrays, dict(facts))
    refused(saved)


@pytest.mark.parametrize("text", ["", "[]", "null", "7", "NaN", '{"config": []}', "[" * 100_000], ids=lambda x: x[:8])
def test_metadata_that_make_no_sense_are_refused(saved: Path, text: str):
    arrays = {name: np.array(array) for name, array in load_arrays(saved)[0].items()}
    save_arrays(saved, arrays, {"model": text})
    assert "does not hold such a model" in refused(saved)
    save_arrays(saved, arrays)
    assert "does not hold such a model" in refused(saved)


def test_a_file_cut_off_anywhere_is_refused(saved: Path):
    data = saved.read_bytes()
    for size in (0, 4, 8, 100, len(data) // 2, len(data) - 1):
        saved.write_bytes(data[:size])
        assert "cut off" in refused(saved)
    saved.unlink()
    assert "No such file" in refused(saved)


def test_a_file_of_another_architecture_is_refused(saved: Path):
    assert "does not hold such a model" in refused(saved, elman.Model)


TIED = {
    bow: {"width": 6, "hidden_width": 6, "tied": True},
    mlp: {"width": 6, "hidden_width": 6, "order": 4, "is_direct": False, "tied": True},
    attention: {"width": 6, "hidden_width": 8, "num_heads": 2, "context_length": 16, "tied": True, "output_bias": True},
}


def make_tied(module, **settings):
    torch.manual_seed(0)
    return module.Model(module.Config(**TIED[module] | settings), VOCABULARY, EOS)


@pytest.mark.parametrize("module", TIED)
def test_a_tied_output_is_the_vectors_of_the_words(module):
    """As with a copy of them for an output: the same logits, and the sum of both gradients."""
    tied, untied = make_tied(module), make_tied(module, tied=False)
    copied = tied.embedding.weight.detach()[:VOCABULARY].clone()
    untied.load_state_dict(tied.state_dict() | {"unembedding.weight": copied})
    words = torch.from_numpy(np.random.default_rng(0).integers(0, VOCABULARY, (3, 9)))
    for model in (tied, untied):
        model.loss(Batch(words[:, :-1], words[:, 1:])).total.backward()
    torch.testing.assert_close(tied(words), untied(words))
    both = untied.embedding.weight.grad.clone()
    both[:VOCABULARY] += untied.unembedding.weight.grad
    torch.testing.assert_close(tied.embedding.weight.grad, both)
    assert tied.num_parameters == untied.num_parameters - copied.numel()


@pytest.mark.parametrize("module", TIED)
@pytest.mark.parametrize("is_tied", [True, False])
def test_a_sample_of_all_words_gives_the_loss_of_all_words(module, is_tied):
    model = make_tied(module, tied=is_tied)
    words = torch.from_numpy(np.random.default_rng(0).integers(0, VOCABULARY, (3, 9)))
    batch = Batch(words[:, :-1], words[:, 1:])
    everything = Sampler(torch.ones(VOCABULARY)).draw()  # its head has room for them
    exact, sampled = model.advance(batch, None)[0], model.advance(batch, None, everything)[0]
    torch.testing.assert_close(sampled.total, exact.total)


@pytest.mark.parametrize("module", TIED)
def test_the_output_bias_starts_at_the_frequencies(module):
    model = make_tied(module)
    counts = np.arange(VOCABULARY)
    model.set_output_bias(counts)
    expected = np.log((counts + 1) / (counts + 1).sum())
    np.testing.assert_allclose(model.unembedding.bias.detach().numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("module", TIED)
def test_a_tied_output_comes_back_from_its_file(module, tmp_path):
    model = make_tied(module).eval()
    model.save(tmp_path / "model")
    words = np.array([[1, 2, 3]])
    torch.testing.assert_close(module.Model.load(tmp_path / "model")(words), model(words))


@pytest.mark.parametrize(
    ("module", "settings"),
    [
        (bow, {"hidden_width": 7}),
        (mlp, {"hidden_width": 7}),
        (mlp, {"is_direct": True}),
        (attention, {"has_residuals": False, "has_layer_norm": False}),
    ],
)
def test_an_output_of_another_width_cannot_be_tied(module, settings):
    with pytest.raises(UserError, match="tied"):
        make_tied(module, **settings)
