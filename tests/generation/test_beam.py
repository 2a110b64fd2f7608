"""Beam search against exhaustive search on models small enough for it."""

import itertools
import math

import numpy as np
import pytest

from chainrule.errors import UserError
from chainrule.generation import Beam, Sampling, beam_search, sample

from . import peers
from .toys import LimitedContext, TableBigram, TorchBigram, Total, letters, log_softmax, random_table

TOKENIZER = letters(3)
EOS = TOKENIZER.eos


def exhaustive(table: np.ndarray, length: int, penalty: float) -> list[tuple[float, tuple[int, ...]]]:
    """Every text that ends within `length` tokens or is cut there, under a `Total` with no prompt."""
    scored = []
    for count in range(1, length + 1):
        for ids in itertools.product(range(4), repeat=count):
            if EOS in ids[:-1] or (ids[-1] != EOS and count < length):
                continue
            totals = [EOS + sum(ids[:position]) for position in range(count)]
            steps = [log_softmax(table[total % 4])[token] for total, token in zip(totals, ids, strict=True)]
            scored.append((math.fsum(steps) / count**penalty, ids))
    return sorted(scored, reverse=True)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("penalty", [-1.0, 0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("length", [1, 3, 4])
def test_a_wide_beam_is_exhaustive_search(seed: int, penalty: float, length: int) -> None:
    table = random_table(4, seed)
    expected = exhaustive(table, length, penalty)
    samples = min(5, len(expected))
    beam = Beam(width=4**length, length_penalty=penalty, max_tokens=length, samples=samples)
    found = beam_search(Total(table), TOKENIZER, "", beam)
    assert [each.ids for each in found] == [ids for _, ids in expected[:samples]]
    assert [each.score for each in found] == pytest.approx([score for score, _ in expected[:samples]])


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("penalty", [-1.0, 0.0, 1.0, 3.0])
def test_a_beam_of_width_one_is_greedy(seed: int, penalty: float) -> None:
    table = random_table(4, seed)
    (found,) = beam_search(Total(table), TOKENIZER, "ab", Beam(1, penalty, max_tokens=15))
    (greedy,) = sample(Total(table), TOKENIZER, "ab", Sampling(temperature=0, max_tokens=15))
    assert (found.text, found.ids, found.finish_reason) == (greedy.text, greedy.ids, greedy.finish_reason)
    np.testing.assert_allclose(found.log_probabilities, greedy.log_probabilities, atol=1e-6)


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("penalty", [-1.0, 0.0, 1.0, 2.0])
def test_the_best_texts_are_those_that_transformers_finds(width: int, penalty: float) -> None:
    for seed, prompt in itertools.product(range(4), ["", "abc"]):
        expected = peers.generate(
            seed,
            prompt,
            max_tokens=10,
            num_beams=width,
            num_return_sequences=width,
            length_penalty=penalty,
            early_stopping="never",
        )
        beam = Beam(width, penalty, max_tokens=10, samples=width)
        found = beam_search(peers.Whole(peers.gpt2(seed)), peers.TOKENIZER, prompt, beam)
        assert [each.ids for each in found] == expected


def test_a_text_that_ends_leaves_its_place_to_the_next_best() -> None:
    """After a: eos .6, b .4; after b: eos .3, c .7; after c: eos. Of two beginnings, both go on though one ended."""
    table = np.full((4, 4), -np.inf)
    table[EOS, 0] = 0.0
    table[0, [EOS, 1]] = np.log([0.6, 0.4])
    table[1, [EOS, 2]] = np.log([0.3, 0.7])
    table[2, EOS] = 0.0
    found = beam_search(TableBigram(table), TOKENIZER, "", Beam(2, 0.0, samples=2))
    assert [each.ids for each in found] == [(0, EOS), (0, 1, 2, EOS)]
    assert [each.score for each in found] == pytest.approx(np.log([0.6, 0.28]))


@pytest.mark.parametrize("width", [1, 3])
def test_a_beam_ends_before_a_stop_string_as_in_transformers(width: int) -> None:
    """The stop string is two tokens; transformers gives the ids with it, the text here ends before it."""
    ended = 0
    for seed in range(6):
        expected = [
            next((ids[: end + 1] for end in range(1, len(ids)) if ids[end - 1 : end + 1] == (9, 9)), ids)
            for ids in peers.generate(
                seed,
                "ab",
                max_tokens=12,
                num_beams=width,
                num_return_sequences=width,
                early_stopping="never",
                stopping_criteria=peers.ends_with(9, 9),
            )
        ]
        beam = Beam(width, max_tokens=12, samples=width, stop=("jj",))
        found = beam_search(peers.Whole(peers.gpt2(seed)), peers.TOKENIZER, "ab", beam)
        assert [each.ids for each in found] == expected
        for each in found:
            text = peers.TOKENIZER.decode([id for id in each.ids if id != peers.EOS])
            assert each.text == text.removesuffix("jj")
            assert (each.finish_reason == "stop") == text.endswith("jj")
            ended += each.finish_reason == "stop"
    assert ended


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 1.0, 2.0])
def test_stopping_early_never_changes_the_result(penalty: float, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Beam(width=5, length_penalty=penalty, max_tokens=12, samples=3)
    models = [Total(random_table(4, seed)) for seed in range(20)]
    early = [beam_search(model, TOKENIZER, "", settings) for model in models]
    read_early = sum(model.tokens_read for model in models)
    monkeypatch.setattr(Beam, "bound", lambda *_: math.inf)
    assert [beam_search(model, TOKENIZER, "", settings) for model in models] == early
    assert sum(model.tokens_read for model in models) - read_early >= read_early


def test_scores_are_sorted_and_follow_from_the_log_probabilities() -> None:
    found = beam_search(Total(random_table(4)), TOKENIZER, "c", Beam(8, 0.7, max_tokens=9, samples=8))
    scores = [each.score or 0.0 for each in found]
    assert scores == sorted(scores, reverse=True) and len({each.ids for each in found}) == len(found) == 8
    for each, score in zip(found, scores, strict=True):
        assert score == pytest.approx(sum(each.log_probabilities) / len(each.ids) ** 0.7)
        assert each.text == TOKENIZER.decode([token for token in each.ids if token != EOS])


def test_a_torch_model_gives_what_the_same_table_gives_in_numpy() -> None:
    table, settings = random_table(4, 9), Beam(4, max_tokens=8, samples=4)
    assert beam_search(TorchBigram(table), TOKENIZER, "a", settings) == beam_search(
        TableBigram(table), TOKENIZER, "a", settings
    )


def test_impossible_continuations_are_never_returned() -> None:
    table = np.full((4, 4), -np.inf)
    table[EOS, 0] = table[0, 1] = table[1, EOS] = 0.0
    found = beam_search(TableBigram(table), TOKENIZER, "", Beam(width=8, samples=8))
    assert [each.ids for each in found] == [(0, 1, EOS)]


def test_a_dead_end_does_not_hide_the_other_beginnings() -> None:
    table = np.full((4, 4), -np.inf)
    table[EOS, :2] = math.log(0.9), math.log(0.1)
    table[1, EOS] = 0.0  # after token 0, nothing is possible
    (found,) = beam_search(TableBigram(table), TOKENIZER, "", Beam(width=2))
    assert found.ids == (1, EOS)


def test_a_model_that_knows_no_next_token_is_refused() -> None:
    with pytest.raises(UserError, match="every continuation probability zero"):
        beam_search(TableBigram(np.full((4, 4), -np.inf)), TOKENIZER, "", Beam())


def test_a_text_may_outgrow_the_context() -> None:
    table = random_table(4, 2)
    table[:, EOS] = -np.inf
    (found,) = beam_search(LimitedContext(table, 6), TOKENIZER, "a", Beam(3, max_tokens=40))
    assert len(found.ids) == 40 and found.finish_reason == "length"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 0}, "width must be a whole number from 1 to 1000, got 0"),
        ({"samples": 5}, "samples of a beam must be a whole number from 1 to 4, got 5"),
        ({"length_penalty": math.nan}, "length_penalty must be a number from -10 to 10, got nan"),
        ({"max_tokens": 0}, "max_tokens must be a whole number of at least 1, got 0"),
    ],
)
def test_a_setting_out_of_range_is_refused_with_what_is_allowed(settings: dict[str, float], message: str) -> None:
    with pytest.raises(UserError) as caught:
        Beam(**settings)  # type: ignore[arg-type]
    assert str(caught.value) == message
