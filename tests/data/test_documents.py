"""Cutting a buffer into documents: the vectorised cuts against plain Python, and what a cut may not lose."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.data.documents import Documents, cut
from chainrule.data.formats import cut_stream

TEXTS = st.text(alphabet="aé中😀 \n\n\n\t\v\f\x1c\x85\u2028\u3000\u00a0\u1680", max_size=60)
WORDS_AND_NEWLINES = st.text(alphabet="aé中\n\n", max_size=60)


def as_buffer(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8)


def texts(documents: Documents) -> list[str]:
    return [documents.text(index) for index in range(len(documents))]


def naive_documents(text: str, unit: str) -> list[str]:
    if unit == "line":
        pieces = text.split("\n")
    elif unit == "block":
        pieces = re.split(r"(?<!\n)\n\n", text.strip("\n"))
    else:
        pieces = [text]
    return [piece for piece in pieces if piece.strip()]


@pytest.mark.parametrize("unit", ["line", "block", "file"])
@given(text=TEXTS)
def test_a_vectorised_cut_is_the_naive_cut(unit: str, text: str) -> None:
    assert texts(cut(as_buffer(text), unit, "t")) == naive_documents(text, unit)


@pytest.mark.parametrize("unit", ["line", "block", "file"])
@given(text=TEXTS, size=st.integers(1, 9))
def test_a_cut_in_pieces_is_the_cut_in_one_piece(unit: str, text: str, size: int) -> None:
    encoded = text.encode()
    chunks = [encoded[start : start + size] for start in range(0, len(encoded), size)]
    whole = cut(as_buffer(text), unit, "t")
    batches = list(cut_stream(chunks, unit, "t"))
    assert [document for batch in batches for document in texts(batch)] == texts(whole)
    assert [line for batch in batches for line in batch.lines.tolist()] == whole.lines.tolist()
    assert all(len(batch) for batch in batches)


@given(text=WORDS_AND_NEWLINES)
def test_joined_blocks_give_the_text_back_but_for_outer_newlines(text: str) -> None:
    assert "\n\n".join(texts(cut(as_buffer(text), "block", "t"))) == text.strip("\n")


@given(text=TEXTS)
def test_joined_lines_give_back_every_line_that_is_written_on(text: str) -> None:
    documents = cut(as_buffer(text), "line", "t")
    lines = text.split("\n")
    assert texts(documents) == [lines[number - 1] for number in documents.lines]
    assert all(not line.strip() for number, line in enumerate(lines, 1) if number not in documents.lines)


@given(text=TEXTS, unit=st.sampled_from(["line", "block"]))
def test_a_document_starts_at_the_line_it_names(text: str, unit: str) -> None:
    documents = cut(as_buffer(text), unit, "t", first_line=5)
    before = [text.encode()[:start].count(b"\n") for start in documents.starts]
    assert documents.lines.tolist() == [5 + count for count in before]


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("A\n\nB", ["A", "B"]),
        ("A\n\n\nB", ["A", "\nB"]),
        ("A\n\n\n\nB", ["A", "\n\nB"]),
        ("A\nB\n", ["A\nB"]),
        ("\n\n\nA\n\n\n", ["A"]),
        ("A\n \nB", ["A\n \nB"]),
        ("A\n\n \t\n\nB", ["A", "B"]),
        ("\n\n\n", []),
        ("", []),
    ],
)
def test_a_block_separator_is_two_newlines_and_the_rest_stays(text: str, blocks: list[str]) -> None:
    assert texts(cut(as_buffer(text), "block", "t")) == blocks


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\v", "\f", "\x85", "\x1c"])
def test_only_a_line_feed_ends_a_line(inside: str) -> None:
    assert texts(cut(as_buffer(f"a{inside}b\nc"), "line", "t")) == [f"a{inside}b", "c"]


@pytest.mark.parametrize("space", [" ", "\t", "\u3000", "\u2003", "\x85", "\u00a0"])
@pytest.mark.parametrize("count", [1, 63, 64, 65, 300])
def test_long_runs_of_whitespace_are_no_document_until_a_letter_comes(space: str, count: int) -> None:
    text = f"{space * count}\n{space * count}x\n"
    assert texts(cut(as_buffer(text), "line", "t")) == [space * count + "x"]


def test_characters_that_begin_like_whitespace_are_text() -> None:
    lines = ["\u200b", "\u00a1", "\u3001", "\u2010", "\u1681", "\u2060"]
    assert texts(cut(as_buffer("\n".join(lines)), "line", "t")) == lines


def test_sizes_add_up_to_the_bytes_of_the_text() -> None:
    text = "één\ntwee\ndrie\n"
    lines = cut(as_buffer(text), "line", "t")
    assert lines.sizes.tolist() == [6, 5, 5]
    assert lines.sizes.sum() == len(text.encode())
    assert cut(as_buffer("a\n\nbc"), "block", "t").sizes.tolist() == [3, 4]
    assert cut(as_buffer("a\n\nbc"), "file", "t").sizes.tolist() == [5]


def test_select_keeps_the_chosen_documents_and_shares_the_buffer() -> None:
    documents = cut(as_buffer("a\n\nb\nc\n"), "line", "t")
    chosen = documents.select(np.array([False, True, True]))
    assert texts(chosen) == ["b", "c"]
    assert chosen.lines.tolist() == [3, 4]
    assert chosen.buffer is documents.buffer
    assert texts(documents.select(np.array([2, 0]))) == ["c", "a"]
