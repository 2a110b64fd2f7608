"""The hardest passages, against looking at every window there is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.data.documents import Documents
from chainrule.evaluation.worst_passages import WorstPassage, worst_passages
from chainrule.models.contract import LanguageModel
from chainrule.text.base import Tokenizer
from tests.evaluation.toys import LINES, BigramModel, as_lines, random_model, tokenizer_of

TrainingBatch = tuple[float, int, int, int]  # mean bits, document, start, stop


def bits_of(model: LanguageModel, tokenizer: Tokenizer, line: str) -> list[float]:
    """Bits of every token of one document, its end left out."""
    stream = np.array([tokenizer.eos, *tokenizer.encode(line), tokenizer.eos], np.uint32)
    return np.minimum(-model.score(stream).astype(np.float64) / np.log(2), 1e6)[:-1].tolist()


def naive_worst(
    model: LanguageModel, tokenizer: Tokenizer, lines: list[str], count: int, length: int
) -> list[TrainingBatch]:
    """Every window of `length` tokens, and every document that is shorter; hardest first, none over another."""
    windows: list[TrainingBatch] = []
    for document, line in enumerate(lines):
        bits = bits_of(model, tokenizer, line)
        size = min(length, len(bits))
        for start in range(len(bits) - size + 1 if bits else 0):
            windows.append((float(np.mean(bits[start : start + size])), document, start, start + size))
    chosen: list[TrainingBatch] = []
    for window in sorted(windows, key=lambda each: (-each[0], each[1], each[2])):
        _, document, start, stop = window
        if len(chosen) < count and all(d != document or stop <= a or start >= b for _, d, a, b in chosen):
            chosen.append(window)
    return chosen


def text_of(tokenizer: Tokenizer, line: str, start: int, stop: int) -> str:
    return tokenizer.decode(tokenizer.encode(line)[start:stop])


def in_order(passages: list[WorstPassage]) -> bool:
    means = [passage.bits_per_token for passage in passages]
    return means == sorted(means, reverse=True)


@pytest.mark.parametrize("name", ["characters", "words", "closed words"])
@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    lines=st.lists(st.sampled_from([*LINES, "zebra", "the zebra sat on the quagga"]), min_size=1, max_size=6),
    seed=st.integers(0, 1000),
    count=st.integers(1, 8),
    length=st.integers(1, 12),
)
def test_worst_passages_are_those_of_looking_everywhere(
    name: str, lines: list[str], seed: int, count: int, length: int
) -> None:
    tokenizer = tokenizer_of(name)
    model = random_model(tokenizer, seed)
    found = worst_passages(model, tokenizer, [as_lines(lines)], count, length)
    expected = naive_worst(model, tokenizer, lines, count, length)
    assert [passage.bits_per_token for passage in found] == pytest.approx([mean for mean, *_ in expected])
    assert in_order(found)
    # Equal lines score the same, so passages are compared as a set of texts and where they may stand.
    assert sorted(passage.text for passage in found) == sorted(
        text_of(tokenizer, lines[document], start, stop) for _, document, start, stop in expected
    )
    for passage in found:  # a passage may begin or end within a character that is spelled in bytes
        assert passage.text.strip("\ufffd") in tokenizer.decode(tokenizer.encode(lines[passage.line - 1]))


def test_passages_name_the_line_and_the_file_they_stand_in() -> None:
    tokenizer = tokenizer_of("words")
    model = random_model(tokenizer)
    one, two = as_lines(["", "", LINES[0], LINES[4]], "one"), as_lines([LINES[3], "", LINES[5]], "two")
    found = worst_passages(model, tokenizer, [one, two], count=50, length=3)
    lines = {("one", 3): LINES[0], ("one", 4): LINES[4], ("two", 1): LINES[3], ("two", 3): LINES[5]}
    assert {(passage.path, passage.line) for passage in found} == set(lines)
    assert all(passage.text in lines[passage.path, passage.line] for passage in found)


def test_batches_give_the_passages_of_one_batch() -> None:
    tokenizer = tokenizer_of("characters")
    model = random_model(tokenizer, 3)
    at_once = worst_passages(model, tokenizer, [as_lines(LINES)], 4, 5)
    apart: list[Documents] = [as_lines([line]) for line in LINES]
    found = worst_passages(model, tokenizer, apart, 4, 5)
    assert [each.text for each in found] == [each.text for each in at_once]
    assert [each.bits_per_token for each in found] == pytest.approx([each.bits_per_token for each in at_once])


def test_the_end_of_a_document_is_no_part_of_a_passage() -> None:
    tokenizer = tokenizer_of("bytes")
    table = np.zeros((257, 257))
    table[:, tokenizer.eos] = -100.0
    found = worst_passages(BigramModel(table, tokenizer.eos), tokenizer, [as_lines(["abc", "defgh"])], 3, 4)
    assert {passage.text for passage in found} <= {"abc", "defg", "efgh"}
    assert all(passage.bits_per_token == pytest.approx(8.0) for passage in found)


def test_an_impossible_passage_is_the_worst() -> None:
    tokenizer = tokenizer_of("bytes")
    table = np.random.default_rng(0).normal(size=(257, 257))
    table[ord("x"), ord("y")] = -np.inf
    lines = ["hard enough as it is", "here is xy so", "and more of the same"]
    found = worst_passages(BigramModel(table, tokenizer.eos), tokenizer, [as_lines(lines)], 3, 5)
    assert found[0].line == 2
    assert "y" in found[0].text
    assert np.isposinf(found[0].bits_per_token)
    assert found[0].bits_per_token > 1000 > found[1].bits_per_token


def test_asking_for_none_or_more_than_there_are_gives_that() -> None:
    tokenizer = tokenizer_of("words")
    model = random_model(tokenizer)
    assert worst_passages(model, tokenizer, [as_lines(LINES)], count=0) == []
    assert len(worst_passages(model, tokenizer, [as_lines(["mat mat", "a"])], count=9)) == 2
