"""Training and validation text: a decision about content alone, and a cut that loses nothing."""

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.data.corpus import Corpus, Reading
from chainrule.data.documents import Documents, cut
from chainrule.data.split import Split, Splitting, content_fractions, decide
from chainrule.errors import UserError
from tests.shared_data import FOLDER, requires

SEEDED = settings(deadline=None, derandomize=True, max_examples=50)
lines_of_text = st.lists(
    st.text(alphabet="abcé中😀 ", min_size=1, max_size=8).filter(str.strip), min_size=1, max_size=40
)
fractions = st.floats(0.01, 0.9)


def as_lines(lines: Sequence[str], path: str = "t") -> Documents:
    return cut(np.frombuffer("\n".join(lines).encode(), np.uint8), "line", path)


def as_file(text: str, path: str = "t") -> Documents:
    return cut(np.frombuffer(text.encode(), np.uint8), "file", path)


def in_batches(lines: Sequence[str], sizes: Sequence[int]) -> list[Documents]:
    edges = [0, *np.cumsum(sizes).tolist(), len(lines)]
    return [as_lines(lines[a:b]) for a, b in pairwise(edges) if lines[a:b]]


def texts(documents: Documents) -> list[str]:
    return [documents.text(index) for index in range(len(documents))]


def parts(split: Split, batches: Sequence[Documents]) -> tuple[list[str], list[str]]:
    """(training, validation) texts of all batches."""
    train: list[str] = []
    validation: list[str] = []
    for first, second in split(iter(batches)):
        train += texts(first)
        validation += texts(second)
    return train, validation


def part(batches: Sequence[Documents], splitting: Splitting, unit: str = "line") -> tuple[list[str], list[str]]:
    return parts(decide(iter(batches), splitting, unit), batches)


def distinct_lines(count: int, seed: int = 0) -> list[str]:
    generator = np.random.default_rng(seed)
    return [f"line {number} {generator.integers(1 << 40):x}" for number in range(count)]


# By content


@SEEDED
@given(lines=lines_of_text, seed=st.integers(-5, 5), sizes=st.lists(st.integers(1, 9), max_size=5))
def test_a_document_s_number_depends_on_its_text_and_the_seed_alone(
    lines: list[str], seed: int, sizes: list[int]
) -> None:
    alone = [content_fractions(as_file(line, path="another"), seed)[0] for line in lines]
    together = np.concatenate([content_fractions(batch, seed) for batch in in_batches(lines, sizes)])
    assert together.tolist() == alone
    assert content_fractions(as_lines(lines[::-1]), seed).tolist() == alone[::-1]
    assert all(0 <= fraction < 1 for fraction in alone)


@SEEDED
@given(lines=lines_of_text, seed=st.integers(0, 5), data=st.data())
def test_order_batches_and_neighbours_change_no_document_s_side(
    lines: list[str], seed: int, data: st.DataObject
) -> None:
    split = Split(below=0.4, seed=seed)
    validation = set(parts(split, [as_lines(lines)])[1])
    shuffled = data.draw(st.permutations(lines))
    sizes = data.draw(st.lists(st.integers(1, 9), max_size=5))
    train_again, validation_again = parts(split, in_batches(shuffled, sizes))
    assert set(validation_again) == validation
    assert validation.isdisjoint(train_again), "equal documents never part"
    some = data.draw(st.lists(st.sampled_from(lines), min_size=1))
    assert set(parts(split, [as_lines(some)])[1]) == validation & set(some)


@SEEDED
@given(lines=lines_of_text, below=fractions, seed=st.integers(0, 5), sizes=st.lists(st.integers(1, 9), max_size=5))
def test_no_document_is_lost_or_doubled_and_order_is_kept(
    lines: list[str], below: float, seed: int, sizes: list[int]
) -> None:
    train, validation = parts(Split(below=below, seed=seed), in_batches(lines, sizes))
    assert validation == [line for line in lines if line in set(validation)]
    assert train == [line for line in lines if line not in set(validation)]


def test_a_split_keeps_the_lines_and_the_path_of_documents() -> None:
    documents = as_lines(distinct_lines(200), path="somewhere")
    [(train, validation)] = list(Split(below=0.3)(iter([documents])))
    for side in (train, validation):
        assert side.path == "somewhere"
        assert [documents.text(line - 1) for line in side.lines] == texts(side)


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("seed", [0, 1, 12345, -1, (1 << 64) - 1])
def test_the_fraction_is_respected_within_chance(fraction: float, seed: int) -> None:
    count = 20_000
    for lines in (distinct_lines(count), list(map(str, range(count))), list(map(chr, range(0x4E00, 0x4E00 + count)))):
        _, validation = part([as_lines(lines)], Splitting(fraction, split_seed=seed))
        assert abs(len(validation) - fraction * count) < 5 * sqrt(count * fraction * (1 - fraction))


def test_two_seeds_choose_independently() -> None:
    count, fraction = 20_000, 0.2
    lines = distinct_lines(count)
    chosen = [set(part([as_lines(lines)], Splitting(fraction, split_seed=seed))[1]) for seed in range(4)]
    expected = fraction**2 * count
    for i in range(4):
        for j in range(i):
            assert abs(len(chosen[i] & chosen[j]) - expected) < 5 * sqrt(expected)


def test_a_larger_fraction_only_adds_to_the_validation_text() -> None:
    lines = distinct_lines(500)
    chosen = [set(part([as_lines(lines)], Splitting(fraction))[1]) for fraction in (0.05, 0.1, 0.3, 0.6)]
    assert all(smaller < larger for smaller, larger in pairwise(chosen))


@pytest.mark.parametrize("count", [10, 11, 20, 50])
def test_validation_is_never_empty_with_ten_documents(count: int) -> None:
    for seed in range(100):
        train, validation = part([as_lines(distinct_lines(count, seed))], Splitting(0.01, split_seed=seed))
        assert validation
        assert train


@pytest.mark.parametrize("lengths", [[5] * 12, [5] * 11 + [100], [100] + [5] * 11, [1] * 9 + [1000]])
def test_validation_is_never_empty_with_ten_documents_at_the_tail(lengths: list[int]) -> None:
    """However long the last document is."""
    lines = [chr(97 + number) * length for number, length in enumerate(lengths)]
    train, validation = part([as_lines(lines)], Splitting(0.1, "tail"))
    assert validation
    assert train


def test_a_fraction_of_nothing_leaves_everything_for_training() -> None:
    lines = distinct_lines(30)
    for way in ("documents", "tail"):
        assert part([as_lines(lines)], Splitting(0.0, way)) == (lines, [])


# By position


@pytest.mark.parametrize("fraction", [0.05, 0.1, 0.25, 0.5, 0.9])
@SEEDED
@given(text=st.text(alphabet="abcé中😀 \n", min_size=100, max_size=120).filter(str.strip))
def test_one_document_is_cut_at_a_character_and_joins_to_the_text(fraction: float, text: str) -> None:
    documents = as_file(text)
    train, validation = part([documents], Splitting(fraction), "file")
    assert "".join(train + validation) == text
    assert (len(train), len(validation)) == (1, 1)
    wanted = len(text.encode()) * (1 - fraction)
    assert wanted - 1 <= len(train[0].encode()) < wanted + 4, "the first character at or after the place"


def test_ninety_percent_of_one_document_is_exact() -> None:
    train, validation = part([as_file("0123456789" * 100)], Splitting(0.1, "tail"), "file")
    assert ([len(each) for each in train], [len(each) for each in validation]) == ([900], [100])
    assert train[0] + validation[0] == "0123456789" * 100


@requires("tinyshakespeare")
def test_tinyshakespeare_parts_as_it_always_has() -> None:
    corpus = Corpus([FOLDER / "tinyshakespeare" / "input.txt"], Reading(unit="file"))
    split = decide(corpus.batches(), Splitting(0.1), corpus.unit)
    train, validation = parts(split, list(corpus.batches()))
    assert (len("".join(train)), len("".join(validation))) == (1_003_854, 111_540)
    assert train[0] + validation[0] == (FOLDER / "tinyshakespeare" / "input.txt").read_text()
    assert split.note == "only 1 document: the last part is the validation text"


@SEEDED
@given(lines=lines_of_text, fraction=fractions, sizes=st.lists(st.integers(1, 9), max_size=5))
def test_the_tail_of_many_documents_is_their_end_whatever_the_batches(
    lines: list[str], fraction: float, sizes: list[int]
) -> None:
    if len(lines) == 1:
        return
    train, validation = part(in_batches(lines, sizes), Splitting(fraction, "tail"))
    assert train + validation == lines
    assert (train, validation) == part([as_lines(lines)], Splitting(fraction, "tail"))
    bytes_before = np.cumsum([0] + [len(line.encode()) + 1 for line in lines])
    if len(validation) != 1:  # the last document is kept aside however long it is
        assert bytes_before[len(train)] >= int(bytes_before[-1] * (1 - fraction)), "never more than was asked for"


def test_files_are_cut_where_the_tail_begins_and_lines_are_not() -> None:
    files = [as_file("a" * 60, "one"), as_file("b" * 60, "two")]
    assert part(files, Splitting(0.25, "tail"), "file") == (["a" * 60, "b" * 30], ["b" * 30])
    assert part(files, Splitting(0.75, "tail"), "file") == (["a" * 30], ["a" * 30, "b" * 60])
    assert part(files, Splitting(0.5, "tail"), "file") == (["a" * 60], ["b" * 60])
    assert part([as_lines(["aaaa", "bbbb", "cccc"])], Splitting(0.4, "tail")) == (["aaaa", "bbbb"], ["cccc"])


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_few_documents_fall_back_to_the_tail_and_say_so(count: int) -> None:
    lines = [f"{number} some words of text" for number in range(count)]
    split = decide(iter([as_lines(lines)]), Splitting(0.6), "line")
    assert split.note == f"only {count} document{'s' if count > 1 else ''}: the last part is the validation text"
    train, validation = parts(split, [as_lines(lines)])
    assert validation
    assert "\n".join(train + validation).replace("\n", "") == "".join(lines)
    assert lines[-1].endswith(validation[-1])


@pytest.mark.parametrize("count", [2, 3, 5, 9])
def test_few_documents_have_validation_text_where_the_note_says_so(count: int) -> None:
    """A tenth is less than one line of nine; the note promises the last part all the same."""
    lines = [f"{number} some words of text" for number in range(count)]
    split = decide(iter([as_lines(lines)]), Splitting(0.1), "line")
    train, validation = parts(split, [as_lines(lines)])
    assert validation or not split.note
    assert train


def test_asking_for_the_tail_or_having_enough_documents_needs_no_note() -> None:
    assert decide(iter([as_lines(distinct_lines(3))]), Splitting(0.5, "tail"), "line").note == ""
    assert decide(iter([as_lines(distinct_lines(10))]), Splitting(0.5), "line").note == ""


@pytest.mark.parametrize("fraction", [-0.1, 1.0, 1.5, float("nan"), float("inf")])
def test_a_fraction_must_leave_something(fraction: float) -> None:
    with pytest.raises(UserError, match="must be at least 0 and below 1"):
        Splitting(fraction)


def test_an_unknown_way_to_split_is_refused() -> None:
    with pytest.raises(UserError, match="must be one of documents, tail, got 'head'"):
        Splitting(split="head")
