"""Penalties, biases and bans, held to transformers' processors and, where it has none, to OpenAI's formula."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    LogitsProcessor as Reference,
)
from transformers import (
    MinNewTokensLengthLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TypicalLogitsWarper,
)

from chainrule.errors import UserError
from chainrule.generation import Sampling, sample
from chainrule.generation.filters import typical_p
from chainrule.generation.processors import LogitsProcessor

from . import peers
from .toys import TableBigram, letters, random_table

VOCABULARY = 12
EOS = VOCABULARY - 1
PROMPT = [EOS, 3, 4, 3]
TEXT = [5, 3, 4, 5, 5, 3, 4]


def processed(settings: dict[str, Any], logits: np.ndarray, drawn: list[int]) -> np.ndarray:
    process = LogitsProcessor(Sampling(**settings), PROMPT, (EOS,))
    process(logits)  # before the first token; the tokens come one by one
    for token in drawn:
        process.append(token)
    return process(logits)


def by_transformers(reference: Reference, logits: np.ndarray, drawn: list[int]) -> np.ndarray:
    return reference(torch.tensor([PROMPT + drawn]), torch.tensor(logits[None]))[0].numpy()


CASES = [
    ({"repetition_penalty": 1.7}, lambda: RepetitionPenaltyLogitsProcessor(1.7)),
    ({"repetition_penalty": 0.6}, lambda: RepetitionPenaltyLogitsProcessor(0.6)),
    *[({"no_repeat_ngram_size": size}, lambda size=size: NoRepeatNGramLogitsProcessor(size)) for size in (1, 2, 3, 20)],
    ({"min_tokens": 4}, lambda: MinNewTokensLengthLogitsProcessor(len(PROMPT), 4, EOS)),
    ({"logit_bias": {3: -100.0, EOS: 2.5}}, lambda: SequenceBiasLogitsProcessor([[[3], -100.0], [[EOS], 2.5]])),
]


@pytest.mark.parametrize(("settings", "reference"), CASES)
@pytest.mark.parametrize("length", range(len(TEXT) + 1))
def test_logits_are_changed_as_transformers_changes_them(settings: dict[str, Any], reference: Any, length: int) -> None:
    logits = np.random.default_rng(length).normal(size=VOCABULARY).astype(np.float32)
    expected = by_transformers(reference(), logits, TEXT[:length])
    np.testing.assert_array_equal(processed(settings, logits, TEXT[:length]), expected)


@pytest.mark.parametrize(("frequency", "presence"), [(0.5, 0.0), (0.0, 1.5), (-2.0, 2.0), (1.25, -0.5)])
def test_frequency_and_presence_are_of_the_tokens_drawn_as_openai_defines_them(
    frequency: float, presence: float
) -> None:
    """mu[j] -> mu[j] - c[j] * frequency_penalty - (c[j] > 0) * presence_penalty; the prompt does not count."""
    logits = np.random.default_rng(1).normal(size=VOCABULARY).astype(np.float32)
    counts = Counter(TEXT)
    expected = [
        logit - counts[token] * frequency - (counts[token] > 0) * presence for token, logit in enumerate(logits)
    ]
    found = processed({"frequency_penalty": frequency, "presence_penalty": presence}, logits, TEXT)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found[EOS] == logits[EOS]  # it is in the prompt alone


@pytest.mark.parametrize("mass", [0.05, 0.3, 0.7, 0.95, 1.0])
def test_typical_sampling_keeps_the_tokens_that_transformers_keeps(mass: float) -> None:
    logits = np.random.default_rng(2).normal(size=(20, 300)) * 2
    logits[:, ::7] = -np.inf
    warper = (lambda _, scores: scores) if mass == 1 else TypicalLogitsWarper(mass)
    expected = warper(torch.zeros(20, 1, dtype=torch.int64), torch.tensor(logits)).numpy()
    np.testing.assert_array_equal(typical_p(logits, mass), expected)


@pytest.mark.parametrize(
    "settings",
    [
        {"repetition_penalty": 1.3},
        {"repetition_penalty": 2.0},
        {"no_repeat_ngram_size": 2},
        {"min_tokens": 6},
        {"repetition_penalty": 1.5, "no_repeat_ngram_size": 3, "min_tokens": 5},
    ],
)
def test_greedy_text_is_that_of_transformers(settings: dict[str, Any]) -> None:
    theirs = {"min_new_tokens" if name == "min_tokens" else name: value for name, value in settings.items()}
    for seed in range(8):
        (expected,) = peers.generate(seed, "abca", max_tokens=12, **theirs)
        ours = Sampling(temperature=0, max_tokens=12, **settings)
        (found,) = sample(peers.Whole(peers.gpt2(seed)), peers.TOKENIZER, "abca", ours)
        assert found.ids == expected


def test_log_probabilities_stay_the_models_own() -> None:
    table = random_table(4, 5)
    plain = np.log(np.exp(table) / np.exp(table).sum(-1, keepdims=True))
    settings = Sampling(seed=1, max_tokens=30, frequency_penalty=1.5, logit_bias={3: -100.0}, typical_p=0.8)
    (found,) = sample(TableBigram(table), letters(3), "", settings)
    read = [3, *found.ids[:-1]]
    assert 3 not in found.ids and len(found.ids) == 30
    np.testing.assert_allclose(found.log_probabilities, plain[read, found.ids], atol=1e-6)


def test_a_token_that_is_not_in_the_vocabulary_is_refused_before_anything_is_drawn() -> None:
    with pytest.raises(UserError, match="logit_bias names the token 4, but the last one of this model is 3"):
        sample(TableBigram(random_table(4)), letters(3), "", Sampling(logit_bias={4: 1.0}))


def test_settings_that_leave_no_token_are_named_as_the_reason() -> None:
    with pytest.raises(UserError, match="the settings rule out every token"):
        sample(TableBigram(random_table(4)), letters(3), "", Sampling(seed=0, no_repeat_ngram_size=1, min_tokens=9))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"presence_penalty": 5}, "presence_penalty must be a number from -2 to 2, got 5"),
        ({"frequency_penalty": -2.5}, "frequency_penalty must be a number from -2 to 2, got -2.5"),
        ({"logit_bias": {3: 101}}, "logit_bias of the token 3 must be a number from -100 to 100, got 101"),
        ({"logit_bias": {-1: 1}}, "a token of logit_bias must be a whole number of at least 0, got -1"),
        ({"typical_p": 1.5}, "typical_p must be a number from 0 to 1, got 1.5"),
        ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size must be a whole number of at least 0, got -1"),
        ({"min_tokens": -1}, "min_tokens must be a whole number of at least 0, got -1"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        Sampling(**settings)
    assert str(caught.value) == message
