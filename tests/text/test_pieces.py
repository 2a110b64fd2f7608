"""Cutting and numbering pieces: the compiled cuts against the library's own pre-tokenizers, character by character."""

import sys
import unicodedata
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from chainrule.data.documents import Documents
from chainrule.text.pieces import ADDED_SPACE, CHARACTERS, GPT2, WHITESPACE, WORDS, PieceTable, expand, has_unassigned
from chainrule.text.words import count_pieces
from tests.text.samples import SEEDED, as_documents, assigned_text, library_words

BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False)
WHITESPACE_SPLIT = pre_tokenizers.WhitespaceSplit()
ALL_SPACES = [chr(point) for point in range(0x10000) if chr(point).isspace()]


def spans(text: str, cutter: pre_tokenizers.PreTokenizer) -> list[str]:
    return [text[start:end] for _, (start, end) in cutter.pre_tokenize_str(text)]


REFERENCES: dict[int, Callable[[str], list[str]]] = {
    GPT2: lambda text: spans(text, BYTE_LEVEL),
    CHARACTERS: list,
    WHITESPACE: lambda text: spans(text, WHITESPACE_SPLIT),
    WORDS: library_words,
}
MODES = pytest.mark.parametrize(
    "mode", [GPT2, CHARACTERS, WHITESPACE, WORDS], ids=["gpt2", "characters", "whitespace", "words"]
)


def spell(table: PieceTable, numbers: np.ndarray) -> list[list[str]]:
    """Numbers back to pieces, one list a document."""
    pieces = [b"", *table.pieces()]
    documents: list[list[str]] = [[]]
    for number in numbers:
        if number == 0:
            documents.append([])
        else:
            documents[-1].append(pieces[number].decode())
    assert documents.pop() == []
    return documents


def assert_cut_like_the_library(table: PieceTable, texts: list[str]) -> None:
    assert spell(table, table.cut(as_documents(texts))) == [REFERENCES[table.mode](text) for text in texts]


@MODES
@SEEDED
@given(texts=st.lists(assigned_text, max_size=5))
def test_cuts_are_those_of_the_library(mode: int, texts: list[str]) -> None:
    assert_cut_like_the_library(PieceTable(mode), texts)


@SEEDED
@given(text=st.text(alphabet="aé中1²!😀' \n\t\u00a0\u3000strevdlm", max_size=40))
def test_cuts_of_crowded_classes_are_those_of_the_library(text: str) -> None:
    assert_cut_like_the_library(PieceTable(GPT2), [text])
    assert_cut_like_the_library(PieceTable(WORDS), [text])


def test_every_character_has_the_class_the_library_gives_it() -> None:
    """All that are assigned, but for the two private planes, of which a part stands for all."""
    points = (*range(0xD800), *range(0xE000, 0xF0100), sys.maxunicode - 1)
    assigned = [chr(point) for point in points if unicodedata.category(chr(point)) != "Cn"]
    texts = ["".join(f"a{c}1{c}!{c}" for c in assigned[start : start + 500]) for start in range(0, len(assigned), 500)]
    table = PieceTable(GPT2)
    assert_cut_like_the_library(table, texts)
    assert_cut_like_the_library(PieceTable(WHITESPACE), texts)
    assert_cut_like_the_library(PieceTable(WORDS), [f" {c}{c} {c}a {c}\n{c}a" for c in assigned if c in ALL_SPACES])
    assert_cut_like_the_library(PieceTable(WORDS), texts)


@MODES
def test_tables_grow_with_the_pieces(mode: int) -> None:
    generator = np.random.default_rng(1)
    letters = generator.integers(ord("a"), ord("z") + 1, (45_000, 5)).astype(np.uint8)
    words = [word.tobytes().decode() for word in letters]
    texts = [" ".join(words[start : start + 1000]) for start in range(0, len(words), 1000)]
    if mode == CHARACTERS:
        texts = ["".join(map(chr, range(0x3400, 0xD800))), "".join(map(chr, range(0x20000, 0x2A000)))]
    table = PieceTable(mode)
    for half in (texts[::2], texts[1::2], texts):
        assert_cut_like_the_library(table, half)
    assert table.size > 40_000
    assert len(set(table.pieces())) == table.size - 1


@pytest.mark.parametrize("mode", [GPT2, WHITESPACE, WORDS])
def test_one_piece_may_be_longer_than_all_before_it(mode: int) -> None:
    table = PieceTable(mode)
    texts = ["a b", "é" * 200_000, "a " + "x" * 300_000 + " b", "é" * 200_000 + " a"]
    assert_cut_like_the_library(table, texts)
    numbers = table.cut(as_documents(["a"]))
    assert spell(table, numbers) == [[" a" if mode == WORDS else "a"]]


def test_a_table_grows_in_pieces_and_in_bytes_at_once() -> None:
    words = [f"{letter * 40}{chr(0x4E00 + i)}" for i in range(20_000) for letter in "ab"]
    assert_cut_like_the_library(PieceTable(WHITESPACE), [" ".join(words), " ".join(reversed(words))])


@MODES
@SEEDED
@given(batches=st.lists(st.lists(assigned_text, max_size=3), max_size=4))
def test_a_number_means_the_same_piece_in_every_batch(mode: int, batches: list[list[str]]) -> None:
    table = PieceTable(mode)
    cuts = [table.cut(as_documents(texts)) for texts in batches]
    pieces = table.pieces()
    assert len(set(pieces)) == len(pieces) == table.size - 1
    for texts, numbers in zip(batches, cuts, strict=True):
        assert spell(table, numbers) == [REFERENCES[mode](text) for text in texts]
    assert table.pieces(3) == pieces[2:]


@MODES
@SEEDED
@given(batches=st.lists(st.lists(assigned_text, max_size=4), max_size=3))
def test_counts_are_those_of_the_library_s_cuts(mode: int, batches: list[list[str]]) -> None:
    pieces, counts = count_pieces([as_documents(texts) for texts in batches], mode)
    expected = Counter(piece for texts in batches for text in texts for piece in REFERENCES[mode](text))
    assert dict(zip([piece.decode() for piece in pieces], counts.tolist(), strict=True)) == expected
    assert [piece.decode() for piece in pieces] == list(expected), "pieces come in the order they first occur"


@pytest.mark.parametrize("text", ["!\u0378", "\u0378!", "a\u0378", "(\U0001239a)", " \u0378\u0378, \u0378"])
def test_counts_of_characters_newer_than_this_python_are_those_of_the_library_s_cuts(text: str) -> None:
    pieces, counts = count_pieces([as_documents([text])], GPT2)
    found = dict(zip([piece.decode() for piece in pieces], counts.tolist(), strict=True))
    assert found == Counter(REFERENCES[GPT2](text))


def test_words_have_a_space_wherever_they_stand_and_what_is_glued_to_them_has_none() -> None:
    def cut(text: str) -> list[str]:
        table = PieceTable(WORDS)
        return spell(table, table.cut(as_documents([text])))[0]

    assert cut("hay, corn 's and 3rd\ncows's") == [
        " hay", ",", " corn", " '", "s", " and", " 3", "rd", "\n", " cows", "'s",
    ]  # fmt: skip
    assert cut("a  b\n\n c\td \r\ne \u3000f ") == [
        " a", "  ", " b", "\n\n ", " c", "\t", " d", " \r\n", " e", " \u3000", " f", " ",
    ]  # fmt: skip
    assert [cut(text) for text in ("", " ", "\n", " a", "\n a")] == [
        [], ["  "], [" \n"], ["  ", " a"], [" \n ", " a"],
    ]  # fmt: skip


@SEEDED
@given(text=st.one_of(assigned_text, st.text(alphabet="a, \n\t\r\u3000", max_size=20)))
def test_without_their_added_spaces_words_are_the_text(text: str) -> None:
    table = PieceTable(WORDS)
    (pieces,) = spell(table, table.cut(as_documents([text])))
    assert ADDED_SPACE.sub("", "".join(pieces)) == text


def test_nothing_has_no_pieces() -> None:
    pieces, counts = count_pieces([], GPT2)
    assert (pieces, counts.tolist()) == ([], [])
    assert PieceTable(GPT2).cut(as_documents(["", ""])).tolist() == [0, 0]


def test_unassigned_characters_are_noticed_wherever_they_stand() -> None:
    for text in ("", "plain", "é中😀"):
        assert not has_unassigned(as_documents([text]).buffer)
    for text in ("\u0378", "é" * 99 + "\U000e0fff", "\u0378 plain"):
        assert has_unassigned(as_documents([text]).buffer)


def test_pieces_are_cut_from_the_documents_alone_not_from_what_lies_between() -> None:
    documents: Documents = as_documents(["one two", "skipped", "three"], b"")
    table = PieceTable(GPT2)
    chosen = documents.select(np.array([2, 0]))
    assert spell(table, table.cut(chosen)) == [["three"], ["one", " two"]]


@given(
    data=st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=5).flatmap(
        lambda each: st.tuples(st.just(each), st.lists(st.integers(0, len(each) - 1)))
    )
)
@SEEDED
def test_expanding_is_replacing_every_piece_by_its_tokens(data: tuple[list[list[int]], list[int]]) -> None:
    tokens, pieces = data
    lengths = np.array([len(each) for each in tokens], np.int64)
    flat = np.array([id for each in tokens for id in each], np.uint32)
    found = expand(np.array(pieces, np.uint32), lengths, flat)
    assert found.tolist() == [id for piece in pieces for id in tokens[piece]]
