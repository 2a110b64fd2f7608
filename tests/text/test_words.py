"""Words: the vocabulary is the most frequent of the library's own cuts."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.text.base import Tokenizer
from tests.shared_data import FOLDER, requires
from tests.text.samples import LINES, SEEDED, as_documents, assigned_text, library_words, train, trained


def count_words(texts: list[str]) -> Counter[bytes]:
    return Counter(word.encode() for text in texts for word in library_words(text))


def own_tokens(tokenizer: Tokenizer) -> list[bytes]:
    """Tokens beside the 256 bytes and <eos>, in the order of their ids."""
    return tokenizer.token_bytes[256:-1]


def expected_words(texts: list[str], min_count: int, size: int | None) -> list[bytes]:
    """Counter.most_common keeps the order of first occurrence among equals."""
    frequent = [word for word, count in count_words(texts).most_common(size) if count >= min_count]
    return [word for word in frequent if len(word) > 1]  # single bytes are there already


@settings(SEEDED, max_examples=40)
@given(
    texts=st.lists(st.one_of(st.sampled_from(LINES), assigned_text), max_size=6),
    min_count=st.none() | st.integers(1, 4),
    size=st.none() | st.integers(1, 30),
)
def test_the_vocabulary_is_the_most_frequent_words(texts: list[str], min_count: int | None, size: int | None) -> None:
    tokenizer = train("words", texts, min_count=min_count, size=size)
    assert own_tokens(tokenizer) == expected_words(texts, min_count or 2, size)
    assert tokenizer.token_bytes[:256] == [bytes([byte]) for byte in range(256)]


def test_words_seen_once_are_spelled_in_bytes_unless_asked_for() -> None:
    texts = ["twice and once", "twice and again"]
    tokenizer = train("words", texts)
    assert own_tokens(tokenizer) == [b" twice", b" and"]
    assert tokenizer.encode("twice and once").tolist() == [256, 257, *b" once"]
    assert tokenizer.encode("once\nonce, twice").tolist() == [*b" once", *b"\n", *b" once", *b",", 256]
    assert own_tokens(train("words", texts, min_count=1)) == [b" twice", b" and", b" once", b" again"]


BEFORE = (
    "", "cows", "cows eat", "corn,", "hay\n", "hay\n\n", "hay  ", "hay\t", "hay\r\n", "hay \n ", "\n", "  ", "牛\u3000",
)  # fmt: skip


@pytest.mark.parametrize("word", ["hay", "牛", "e\u0301te\u0301", "Ġ", "▁", "...", "2026", "unseen"])
def test_a_word_is_the_same_tokens_at_the_beginning_in_the_middle_and_after_any_white_space(word: str) -> None:
    tokenizer = train("words", ["cows eat hay", "hay, corn 牛 e\u0301te\u0301 Ġ ▁ ... 2026"], min_count=1)
    alone = tokenizer.encode(word).tolist()
    for before in BEFORE:
        for after in ("", " is good", "\n", "  "):
            space = " " if before and not before[-1].isspace() else ""
            found = tokenizer.encode(f"{before}{space}{word}{after}").tolist()
            start = len(tokenizer.encode(before))
            assert found[start : start + len(alone)] == alone


def test_a_word_is_another_when_it_is_glued_to_what_is_before_it_or_has_a_capital() -> None:
    tokenizer = train("words", ["hay ,hay Hay"], min_count=1)
    assert own_tokens(tokenizer) == [b" hay", b" ,", b"hay", b" Hay"]
    assert tokenizer.encode("hay,hay").tolist() == [256, *b",", 258]
    assert tokenizer.encode("hay , Hay").tolist() == [256, 257, 259]


def test_a_text_within_another_has_a_space_only_where_it_is_written() -> None:
    tokenizer = train("words", ["hay ,hay hay"], min_count=1)
    assert tokenizer.encode_within("hay").tolist() == [258]
    assert tokenizer.encode_within(" hay").tolist() == [256]
    assert trained("bpe").encode_within(" the").tolist() == trained("bpe").encode(" the").tolist()


@requires("tinyshakespeare")
def test_the_vocabulary_of_a_whole_book_is_its_most_frequent_words() -> None:
    texts = (FOLDER / "tinyshakespeare" / "input.txt").read_text().split("\n\n")[:2000]
    assert own_tokens(train("words", texts, size=1000)) == expected_words(texts, 2, 1000)


def closed_words(**vocabulary: int) -> list[str]:
    tokenizer = train("closed words", ["b a b c", "b a d <unk>"], **vocabulary)
    return [tokenizer.token_text(id) for id in range(tokenizer.vocabulary_size)]


def test_a_closed_vocabulary_is_what_stands_between_white_space() -> None:
    assert closed_words() == ["<unk>", "b", "a", "c", "d", "<eos>"]
    assert closed_words(min_count=2) == ["<unk>", "b", "a", "<eos>"]
    assert closed_words(size=1) == ["<unk>", "b", "<eos>"]
    tokenizer = trained("closed words")
    assert tokenizer.encode("the\u3000cat\u2028sat\x85on").tolist() == tokenizer.encode("the cat sat on").tolist()
    assert tokenizer.unknown not in tokenizer.encode("the\u3000cat\u2028sat\x85on")


@pytest.mark.parametrize("name", ["words", "closed words"])
def test_a_size_is_never_exceeded(name: str) -> None:
    for size in (1, 5, 10**6):
        fixed = 257 if name == "words" else 2
        assert train(name, list(LINES), size=size).vocabulary_size <= fixed + size


@requires("ptb")
def test_the_penn_treebank_has_ten_thousand_words_and_unknown_ones_written_out() -> None:
    """Mikolov's version: 929,589 training tokens, the ends of lines among them, of 10,000 kinds."""
    lines = (FOLDER / "ptb" / "ptb.train.txt").read_text().splitlines()
    tokenizer = train("closed words", lines)
    assert tokenizer.vocabulary_size == 10_000  # 9,998 words, <unk> and <eos>
    ids = tokenizer.encode_documents(as_documents(lines))
    assert len(ids) == 929_589
    assert np.count_nonzero(ids == tokenizer.unknown) == sum(line.split().count("<unk>") for line in lines)
