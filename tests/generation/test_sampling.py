"""Sampling on toy models: right frequencies, repeatable, the same streamed, batched or alone."""

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from chainrule.errors import UserError
from chainrule.generation import Generation, Sampling, log_probabilities, sample, stream

from .toys import (
    Conditioned,
    LimitedContext,
    Pieces,
    Script,
    TableBigram,
    TorchBigram,
    Total,
    letters,
    log_softmax,
    random_table,
)

TOKENIZER = letters(5)  # a to e, and eos is 5
TABLE = random_table(6, seed=3)
ANY = Sampling(seed=7, samples=16, max_tokens=12)
FILTERED = replace(ANY, temperature=0.8, top_k=4, top_p=0.9, min_p=0.02, repetition_penalty=1.2)


def chi_square_limit(freedom: int) -> float:
    """The value a true distribution exceeds once in 10,000 times: Wilson and Hilferty's approximation."""
    spread = 2 / (9 * freedom)
    return freedom * (1 - spread + 3.719 * math.sqrt(spread)) ** 3


def first_tokens(table_row: np.ndarray, count: int, settings: Sampling) -> np.ndarray:
    model = TableBigram(np.tile(table_row, (6, 1)))
    settings = replace(settings, samples=count, max_tokens=1)
    ids = [found.ids[0] for found in sample(model, TOKENIZER, "", settings)]
    return np.bincount(ids, minlength=6)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_samples_have_the_frequencies_of_the_probabilities(seed: int, dtype: type) -> None:
    count = 5000
    probabilities = np.array([0.4, 0.25, 0.0, 0.2, 0.1, 0.05])
    with np.errstate(divide="ignore"):
        logits = np.log(probabilities).astype(dtype)
    found = first_tokens(logits, count, Sampling(temperature=1.0, seed=seed))
    assert found[2] == 0
    expected = probabilities[probabilities > 0] * count
    assert (((found[probabilities > 0] - expected) ** 2) / expected).sum() < chi_square_limit(4)


def test_successive_tokens_of_one_sample_have_the_frequencies_of_the_probabilities() -> None:
    probabilities = np.array([0.4, 0.3, 0.2, 0.1, 0.0, 0.0])
    with np.errstate(divide="ignore"):
        model = TableBigram(np.tile(np.log(probabilities), (6, 1)))
    (found,) = sample(model, TOKENIZER, "", Sampling(temperature=1.0, seed=5, max_tokens=5000))
    pairs = np.zeros((4, 4))
    np.add.at(pairs, (found.ids[:-1], found.ids[1:]), 1)
    expected = np.outer(probabilities[:4], probabilities[:4]) * 4999
    assert ((pairs - expected) ** 2 / expected).sum() < chi_square_limit(15)


def test_the_same_seed_gives_the_same_text_and_another_seed_another() -> None:
    model = Total(TABLE)
    assert sample(model, TOKENIZER, "ab", ANY) == sample(model, TOKENIZER, "ab", ANY)
    assert sample(model, TOKENIZER, "ab", ANY) != sample(model, TOKENIZER, "ab", replace(ANY, seed=8))


def test_without_a_seed_the_one_used_is_reported_and_repeats_the_text() -> None:
    model, settings = Total(TABLE), replace(ANY, seed=None)
    first, second = sample(model, TOKENIZER, "a", settings), sample(model, TOKENIZER, "a", settings)
    assert first[0].seed != second[0].seed
    assert sample(model, TOKENIZER, "a", replace(settings, seed=first[0].seed)) == first


@pytest.mark.parametrize("settings", [ANY, FILTERED])
@pytest.mark.parametrize("architecture", [TableBigram, Total, TorchBigram])
def test_every_sample_is_the_same_alone_as_in_a_batch(architecture: type, settings: Sampling) -> None:
    model = architecture(TABLE)
    together = sample(model, TOKENIZER, "abc", settings)
    assert len({found.text for found in together}) > 5
    for index, expected in enumerate(together):
        alone = sample(model, TOKENIZER, "abc", replace(settings, samples=1, first_sample=index))
        assert alone == [expected]


@pytest.mark.parametrize("settings", [ANY, FILTERED, replace(ANY, stop=("ab", "cd"))])
def test_streamed_text_is_the_text_not_streamed(settings: Sampling) -> None:
    texts = dict.fromkeys(range(16), "")
    for token in stream(Total(TABLE), TOKENIZER, "e", settings):
        texts[token.sample] += token.text
    assert list(texts.values()) == [found.text for found in sample(Total(TABLE), TOKENIZER, "e", settings)]


def test_a_torch_model_says_what_the_same_table_says_in_numpy() -> None:
    for dtype in (np.float64, np.float32):
        table = TABLE.astype(dtype)
        assert sample(TorchBigram(table), TOKENIZER, "b", FILTERED) == sample(
            TableBigram(table), TOKENIZER, "b", FILTERED
        )


def test_a_half_precision_torch_model_can_be_sampled() -> None:
    model = TorchBigram(TABLE).to(torch.bfloat16)
    assert len(sample(model, TOKENIZER, "b", ANY)) == 16


def test_streaming_a_torch_model_leaves_gradients_on_for_the_caller() -> None:
    tokens = stream(TorchBigram(TABLE), TOKENIZER, "b", ANY)
    next(tokens)
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("settings", [ANY, FILTERED, replace(ANY, temperature=0)])
def test_log_probabilities_are_the_models_own_before_any_filter(settings: Sampling) -> None:
    model = Total(TABLE)
    prompt = TOKENIZER.encode("dab")
    for found in sample(model, TOKENIZER, "dab", settings):
        text = [*prompt, *found.ids]
        expected = log_probabilities(model, text, TOKENIZER.eos)[len(prompt) : len(text)]
        np.testing.assert_allclose(found.log_probabilities, expected, atol=1e-6)


def test_alternatives_are_the_most_likely_tokens_of_the_model() -> None:
    settings = replace(FILTERED, alternatives=3)
    token = next(stream(TableBigram(TABLE), TOKENIZER, "c", settings))
    expected = log_softmax(TABLE[2])
    ranked = np.argsort(-expected)[:3]
    assert [found for found, _ in token.alternatives] == ranked.tolist()
    np.testing.assert_allclose([value for _, value in token.alternatives], expected[ranked], atol=1e-6)


def test_temperature_zero_follows_the_most_likely_token() -> None:
    model, current, expected = TableBigram(TABLE), 2, []
    for _ in range(12):
        current = int(TABLE[current].argmax())
        expected.append(current)
        if current == TOKENIZER.eos:
            break
    for found in sample(model, TOKENIZER, "c", replace(ANY, temperature=0)):
        assert list(found.ids) == expected


def test_the_prompt_is_read_once_after_the_boundary_token() -> None:
    model = TableBigram(TABLE)
    next(stream(model, TOKENIZER, "abcd", replace(ANY, samples=16)))
    assert model.tokens_read == 5


def test_a_finished_sample_is_not_run_any_further() -> None:
    model = Total(TABLE)
    found = sample(model, TOKENIZER, "", ANY)
    assert model.tokens_read == 1 + sum(len(each.ids) - 1 for each in found)


def test_repetition_penalty_counts_the_tokens_of_the_prompt_the_text_and_the_boundary() -> None:
    flat = TableBigram(np.tile(np.array([2.0, 1.9, 1.8, 1.7, 1.6, 1.75]), (6, 1)))
    settings = Sampling(temperature=0, repetition_penalty=1.2, max_tokens=5)
    (found,) = sample(flat, TOKENIZER, "a", settings)
    assert found.ids == (1, 2, 3, 0, 0)  # a is in the prompt, and eos was fed before it: 1.75 / 1.2 < 1.6 < 2 / 1.2


def test_a_condition_reaches_the_model_and_every_sample() -> None:
    for offset in range(6):
        shifted = Total(np.roll(TABLE, -offset, axis=0))
        given = sample(Conditioned(TABLE), TOKENIZER, "ab", ANY, condition=np.array([offset]))
        assert given == sample(shifted, TOKENIZER, "ab", ANY)


# How a text ends.

WORDS = Pieces([b"ab", b"c\n", b"\nd", b"\xe7\x81", b"\xab", b"\xe4\xba\x8b", b"x"])


def say(ids: list[int], **settings: object) -> Generation:
    (found,) = sample(Script(ids, WORDS.vocabulary_size), WORDS, "", Sampling(**settings))  # type: ignore[arg-type]
    return found


def test_eos_ends_the_text_and_is_counted_but_not_shown() -> None:
    found = say([0, 6, WORDS.eos, 0])
    assert (found.text, found.finish_reason) == ("abx", "eos")
    assert found.ids == (0, 6, WORDS.eos) and len(found.log_probabilities) == 3


def test_max_tokens_ends_the_text() -> None:
    found = say([0, 6, 6, 0], max_tokens=2)
    assert (found.text, found.finish_reason, found.ids) == ("abx", "length", (0, 6))


@pytest.mark.parametrize(
    ("ids", "stop", "text"),
    [
        ([0, 1, 2, 6], ("\n\n",), "abc"),  # split over two tokens
        ([0, 1, 2, 6], ("x", "\n\nd"), "abc"),  # several
        ([0, 0, 0, 1], ("bab", "abab"), ""),  # overlapping, complete at once: the longest
        ([0, 0, 0, 1], ("b",), "a"),  # inside a token
        ([6, 3, 4, 5, 6], ("火事",), "x"),  # unicode, a character split over tokens
        ([6, 3, 4, 5, 6], ("火", "x火"), ""),
    ],
)
def test_a_stop_string_ends_the_text_before_it(ids: list[int], stop: tuple[str, ...], text: str) -> None:
    found = say(ids, stop=stop)
    assert (found.text, found.finish_reason) == (text, "stop")


def test_a_stop_string_that_is_only_begun_is_text() -> None:
    assert say([0, 1, WORDS.eos], stop=("\n\n",)).text == "abc\n"
    assert say([0, 1], stop=("\n\n",), max_tokens=2).text == "abc\n"


def test_text_that_may_begin_a_stop_string_is_held_back() -> None:
    model = Script([0, 1, 6, WORDS.eos], WORDS.vocabulary_size)
    pieces = [token.text for token in stream(model, WORDS, "", Sampling(stop=("\n\n",)))]
    assert pieces == ["ab", "c", "\nx", ""]


def test_an_unfinished_character_is_shown_when_the_text_ends() -> None:
    assert say([6, 3, WORDS.eos]).text == "x\N{REPLACEMENT CHARACTER}"
    assert say([6, 3, 4], max_tokens=2).text == "x\N{REPLACEMENT CHARACTER}"
    assert say([6, 3, 4, 5], max_tokens=4).text == "x火事"


def test_a_stop_string_in_the_prompt_does_not_count() -> None:
    (found,) = sample(TableBigram(TABLE), TOKENIZER, "a", Sampling(stop=("a",), seed=1, temperature=0, max_tokens=2))
    assert found.ids[0] == TABLE[0].argmax()


# Contexts.


def test_a_prompt_longer_than_the_context_is_refused_before_the_first_token() -> None:
    with pytest.raises(
        UserError, match="the prompt has 9 tokens but this model reads 8; shorten it or pass truncate=True"
    ):
        stream(LimitedContext(TABLE, 8), TOKENIZER, "abcabcabc", ANY)


def test_truncate_keeps_the_last_tokens_of_the_prompt() -> None:
    model = LimitedContext(TABLE, 4)
    settings = Sampling(temperature=0, max_tokens=1, truncate=True, seed=0)
    (found,) = sample(model, TOKENIZER, "aaaaabcde", settings)
    assert found.ids[0] == TABLE[(1 + 2 + 3 + 4) % 6].argmax()
    assert sample(model, TOKENIZER, "abc", settings) == sample(Total(TABLE), TOKENIZER, "abc", settings)


def test_a_text_may_outgrow_the_context_by_reading_its_last_half_again() -> None:
    endless = TABLE.copy()
    endless[:, TOKENIZER.eos] = -np.inf
    (found,) = sample(LimitedContext(endless, 4), TOKENIZER, "a", Sampling(temperature=0, max_tokens=30))
    window, expected = [TOKENIZER.eos, 0], []
    for _ in range(30):
        window = window if len(window) <= 4 else window[-2:]
        expected.append(int(endless[sum(window) % 6].argmax()))
        window = [*window, expected[-1]]
    assert list(found.ids) == expected


# What is refused.


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -0.5}, "temperature must be a number of at least 0, got -0.5"),
        ({"temperature": math.nan}, "temperature must be a number of at least 0, got nan"),
        ({"temperature": math.inf}, "temperature must be a number of at least 0, got inf"),
        ({"temperature": "hot"}, "temperature must be a number of at least 0, got 'hot'"),
        ({"top_k": -1}, "top_k must be a whole number of at least 0, got -1"),
        ({"top_k": 2.5}, "top_k must be a whole number of at least 0, got 2.5"),
        ({"top_p": 1.5}, "top_p must be a number from 0 to 1, got 1.5"),
        ({"min_p": math.nan}, "min_p must be a number from 0 to 1, got nan"),
        ({"repetition_penalty": 0}, "repetition_penalty must be a number from 0.01 to 100, got 0"),
        ({"max_tokens": 0}, "max_tokens must be a whole number of at least 1, got 0"),
        ({"samples": True}, "samples must be a whole number of at least 1, got True"),
        ({"seed": -3}, "seed must be a whole number from 0 to 18446744073709551615, got -3"),
        ({"stop": "end"}, "stop must be a tuple of strings that are not empty, got 'end'"),
        ({"stop": ("",)}, r"stop must be a tuple of strings that are not empty, got ('',)"),
    ],
)
def test_a_setting_out_of_range_is_refused_with_what_is_allowed(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        Sampling(**settings)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_a_model_that_knows_no_next_token_is_refused() -> None:
    with pytest.raises(UserError, match="every next token probability zero"):
        sample(TableBigram(np.full((6, 6), -np.inf)), TOKENIZER, "", ANY)


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_model_that_diverged_is_refused(broken: float) -> None:
    table = TABLE.copy()
    table[:, 2] = broken
    with pytest.raises(UserError, match="not finite"):
        sample(TableBigram(table), TOKENIZER, "", ANY)


def test_sampling_does_not_load_torch() -> None:
    code = "import sys, chainrule.generation; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
