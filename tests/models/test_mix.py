"""Mixes: the sum that defines them, the bucket of every context, and files. Their contract is in tests/contracts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from chainrule.errors import UserError
from chainrule.models import cache, infinigram, lstm, mix, ngram, transformer
from chainrule.models.contract import LanguageModel
from chainrule.storage import load_arrays, save_arrays
from tests.evaluation.toys import BigramModel

VOCABULARY, EOS = 7, 6


def stream(seed: int, length: int = 400) -> np.ndarray:
    ids = np.cumsum(np.random.default_rng(seed).integers(0, 3, length)) % VOCABULARY
    ids[[0, -1]] = EOS
    return ids.astype(np.uint32)


def counted(order: int = 3, smoothing: str = "witten-bell") -> ngram.Model:
    return ngram.Model(ngram.Config(order=order, smoothing=smoothing), VOCABULARY, EOS).fit([stream(0)])


def recurrent() -> lstm.Model:
    torch.manual_seed(0)
    return lstm.Model(lstm.Config(width=8, num_layers=1), VOCABULARY, EOS).eval()


def table(seed: int) -> np.ndarray:
    weights = np.random.default_rng(seed).gamma(0.5, size=(7, 7)) + 0.01
    return np.log(weights / weights.sum(1, keepdims=True))


def weights_of(buckets: int, parts: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(parts), buckets)


def test_probabilities_are_the_weighted_sum_by_hand() -> None:
    model = mix.Model(
        mix.Config(), [BigramModel(table(1), EOS), BigramModel(table(2), EOS)], "ab", np.array([[0.3, 0.7]])
    )
    ids = stream(1)
    expected = (0.3 * np.exp(table(1)) + 0.7 * np.exp(table(2)))[ids[:-1]]  # (tokens, vocabulary)
    np.testing.assert_allclose(np.exp(model.score(ids)), expected[np.arange(len(ids) - 1), ids[1:]], rtol=1e-5)
    logits, _ = model.step(ids[None, :-1].astype(np.int64), model.start(1))
    np.testing.assert_allclose(np.exp(logits[0]), expected, rtol=1e-5)


def test_weights_are_equal_until_they_are_fitted() -> None:
    model = mix.Model(mix.Config(), [BigramModel(table(1), EOS), BigramModel(table(2), EOS)], "ab")
    ids = stream(1)
    expected = (np.exp(table(1)) + np.exp(table(2)))[ids[:-1], ids[1:]] / 2
    np.testing.assert_allclose(np.exp(model.score(ids)), expected, rtol=1e-5)


def longest_context(ids: list[int], order: int, known: set[tuple[int, ...]]) -> int:
    """How many of the last words, none before the last start of a document, were seen in a row and followed."""
    last = max(i for i, word in enumerate(ids) if word == EOS)
    return max(n for n in range(order) if n == 0 or (n <= len(ids) - last and tuple(ids[-n:]) in known))


def test_by_order_each_context_has_the_weights_of_its_length() -> None:
    """With texts that share few contexts, so that all lengths occur."""
    order = 4
    training = np.array([EOS, 0, 1, 2, 3, EOS, 2, 2, 0, 1, EOS], np.uint32)
    words = training.tolist()
    known = {tuple(words[i : i + n]) for n in range(1, order) for i in range(len(words) - n)}
    known = {each for each in known if EOS not in each[1:]}
    part = ngram.Model(ngram.Config(order, "witten-bell"), VOCABULARY, EOS).fit([training])
    weights = weights_of(order, 2)
    model = mix.Model(mix.Config("order"), [recurrent(), part], "ab", weights, np.arange(order - 1) + 0.5)
    ids = stream(3)
    lengths = [longest_context(ids[: i + 1].tolist(), order, known) for i in range(len(ids) - 1)]
    assert set(lengths) == set(range(order))
    scores = [each.score(ids) for each in model.parts]
    expected = [np.log(weights[length] @ np.exp([each[i] for each in scores])) for i, length in enumerate(lengths)]
    np.testing.assert_allclose(model.score(ids), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_by_entropy_each_context_has_the_weights_of_how_unsure_the_part_is(kind: str) -> None:
    part: Any = recurrent()
    if kind == "transformer":
        config = transformer.Config(width=8, num_layers=1, num_heads=2, hidden_width=8, context_length=512)
        part = transformer.Model(config, VOCABULARY, EOS).eval()
    for parameter in part.parameters():
        parameter.data = parameter.data * 3
    ids = stream(3)
    logits = part.step(torch.from_numpy(ids[None, :-1].astype(np.int64)), part.start(1))[0][0]
    entropies = torch.distributions.Categorical(logits=logits).entropy().detach().numpy()
    edges = np.quantile(entropies, [0.2, 0.6]).astype(np.float64)
    weights = weights_of(3, 2)
    model = mix.Model(mix.Config("entropy"), [counted(), part], "ab", weights, edges)
    buckets = (entropies[:, None] >= edges).sum(1)
    scores = np.exp([each.score(ids) for each in model.parts])  # (parts, tokens)
    np.testing.assert_allclose(model.score(ids), np.log((weights[buckets].T * scores).sum(0)), rtol=1e-4, atol=1e-5)


def test_what_one_part_takes_for_impossible_another_may_allow() -> None:
    """A cache and an infinity-gram take most words for impossible: the mix is finite with an n-gram, and only then."""
    strict = infinigram.Model(infinigram.SIZES["tiny"], VOCABULARY, EOS).fit([stream(0)])
    recent = cache.Model(cache.Config(0.9), VOCABULARY, EOS, np.eye(VOCABULARY)[EOS])
    ids = stream(9)
    assert np.isneginf(strict.score(ids)).any()
    mixed = mix.Model(mix.Config(), [strict, recent, counted()], "abc").score(ids)
    assert np.isfinite(mixed).all()
    both = mix.Model(mix.Config(), [strict, recent], "ab").score(ids)
    impossible = np.isneginf(strict.score(ids)) & np.isneginf(recent.score(ids))
    assert impossible.any()
    np.testing.assert_array_equal(np.isneginf(both), impossible)


def test_a_part_that_learns_while_it_scores_is_scored_so() -> None:
    from chainrule.models._dynamic import score_and_learn

    part, other, ids = recurrent(), counted(), stream(4)
    model = mix.Model(mix.Config(dynamic=0.5), [other, part], "ab", np.array([[0.4, 0.6]]))
    expected = np.log(0.4 * np.exp(other.score(ids)) + 0.6 * np.exp(score_and_learn(part, ids, 0.5)[0]))
    np.testing.assert_allclose(model.score(ids), expected, rtol=1e-5)
    still = mix.Model(mix.Config(), [other, part], "ab", np.array([[0.4, 0.6]]))
    assert np.abs(model.score(ids) - still.score(ids)).max() > 0.01
    np.testing.assert_array_equal(  # a prediction on demand, as sampling makes, does not adapt
        model.step(ids[None, :9], model.start(1))[0], still.step(ids[None, :9], still.start(1))[0]
    )
    assert model.notes() == ["parts learn from the text that is scored; sampling does not adapt"]


def test_entropies_of_a_part_that_learns_are_those_while_it_learned() -> None:
    from chainrule.models._dynamic import score_and_learn

    part, ids = recurrent(), stream(4)
    model = mix.Model(mix.Config("entropy", 0.5), [counted(), part], "ab")
    np.testing.assert_array_equal(model.read(ids)[1], score_and_learn(part, ids, 0.5)[1])


def test_what_it_remembers_is_what_its_parts_do() -> None:
    short, long = counted(2), counted(4)
    assert mix.Model(mix.Config(), [short, long], "ab").receptive_field == 3
    assert mix.Model(mix.Config(), [short, recurrent()], "ab").receptive_field is None
    config = transformer.Config(width=8, num_layers=1, num_heads=2, hidden_width=8, context_length=16)
    limited = transformer.Model(config, VOCABULARY, EOS)
    assert mix.Model(mix.Config(), [short, limited, recurrent()], "abc").context_length == 16
    assert mix.Model(mix.Config(), [short, recurrent()], "ab").context_length is None


@pytest.mark.parametrize(
    ("by", "part", "words"), [("order", "lstm", "an n-gram"), ("entropy", "ngram", "learns by gradient")]
)
def test_a_signal_needs_a_part_that_gives_it(by: str, part: str, words: str) -> None:
    parts: list[LanguageModel] = [recurrent() if part == "lstm" else counted()] * 2
    with pytest.raises(UserError, match=f"weights by {by} need .*{words}"):
        mix.Model(mix.Config(by), parts, "ab")


def test_settings_that_do_not_exist_are_refused() -> None:
    with pytest.raises(UserError, match="by must be one of all, order, entropy, got 'odrer'; did you mean 'order'"):
        mix.Config("odrer")
    with pytest.raises(UserError, match="dynamic must be a number of at least 0, got -1"):
        mix.Config(dynamic=-1)


def whole() -> mix.Model:
    """A mix of mixes, with every kind of part."""
    recent = cache.Model(cache.Config(0.9), VOCABULARY, EOS)
    inner = mix.Model(mix.Config("order"), [counted(), recent], ["n", "c"], weights_of(3, 2), np.array([0.5, 1.5]))
    outer = mix.Config("entropy", 0.25)
    return mix.Model(outer, [inner, recurrent(), inner], ["m", "r", "m"], weights_of(2, 3), np.array([1.9]))


def copied(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """What a file holds, in memory: a file that is mapped must not be written over."""
    arrays, metadata = load_arrays(path)
    return {name: array.copy() for name, array in arrays.items()}, metadata


def test_saved_equals_loaded(tmp_path: Path) -> None:
    model, ids = whole(), stream(2)
    model.save(tmp_path / "model.safetensors")
    loaded = mix.Model.load(tmp_path / "model.safetensors")
    assert (loaded.config, loaded.names) == (model.config, model.names)
    np.testing.assert_array_equal(loaded.score(ids), model.score(ids))
    np.testing.assert_array_equal(loaded.step(ids[None], loaded.start(1))[0], model.step(ids[None], model.start(1))[0])
    assert (
        loaded.num_parameters
        == model.num_parameters
        == 6
        + 2 * (6 + counted().num_parameters + 1 + VOCABULARY)
        + sum(parameter.numel() for parameter in recurrent().parameters())
    )


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("weights", np.array([[0.5, 0.5, 0.5], [0.2, 0.3, 0.5]])),
        ("weights", np.array([[1.5, -0.5, 0.0], [0.2, 0.3, 0.5]])),
        ("weights", np.array([[np.nan, 0.5, 0.5], [0.2, 0.3, 0.5]])),
        ("weights", np.array([[0.5, 0.5]])),
        ("weights", np.full((2, 3), 1 / 3, np.float32)),
        ("edges", np.array([1.0, 2.0])),
        ("edges", np.array([np.nan])),
        ("edges", np.array([[1.0]])),
    ],
)
def test_weights_that_lie_are_refused(tmp_path: Path, name: str, array: np.ndarray) -> None:
    whole().save(tmp_path / "model.safetensors")
    arrays, metadata = copied(tmp_path / "model.safetensors")
    save_arrays(tmp_path / "model.safetensors", {**arrays, name: array}, metadata)
    with pytest.raises(UserError, match="does not hold a mix"):
        mix.Model.load(tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    "facts",
    [
        {"architectures": ["mix", "lstm", "../lstm"]},
        {"architectures": ["mix", "lstm"]},
        {"architectures": ["mix", "gru", "mix"]},
        {"names": ["m"]},
        {"names": None},
        {"config": {"by": "chance"}},
        {"config": {"by": "all", "rate": 1}},
    ],
)
def test_facts_that_lie_are_refused(tmp_path: Path, facts: dict[str, Any]) -> None:
    whole().save(tmp_path / "model.safetensors")
    arrays, metadata = copied(tmp_path / "model.safetensors")
    changed = json.dumps(json.loads(metadata["model"]) | facts)
    save_arrays(tmp_path / "model.safetensors", arrays, {"model": changed})
    with pytest.raises(UserError, match="does not hold a mix"):
        mix.Model.load(tmp_path / "model.safetensors")


def test_a_part_that_is_missing_is_told(tmp_path: Path) -> None:
    whole().save(tmp_path / "model.safetensors")
    (tmp_path / "model.parts" / "1.safetensors").unlink()
    with pytest.raises(UserError, match="does not hold a mix.*1.safetensors"):
        mix.Model.load(tmp_path / "model.safetensors")
