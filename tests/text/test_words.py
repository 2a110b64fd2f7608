"""Words: the vocabulary is the most frequent of the library's own cuts."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from chainrule.text.base import Tokenizer
from tests.shared_data import FOLDER, requires
from tests.text.samples import LINES, SEEDED, as_documents, assigned_text, train, trained

BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False)


def count_words(texts: list[str]) -> Counter[bytes]:
    return Counter(text[start:end].encode() for text in texts for _, (start, end) in BYTE_LEVEL.pre_tokenize_str(text))


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
    assert own_tokens(tokenizer) == [b"twice", b" and"]
    assert tokenizer.encode("twice and once").tolist() == [256, 257, *b" once"]
    assert own_tokens(train("words", texts, min_count=1)) == [b"twice", b" and", b" once", b" again"]


def test_a_word_is_another_without_its_space_or_with_a_capital() -> None:
    tokenizer = train("words", ["the the the"])
    assert own_tokens(tokenizer) == [b" the"]
    assert tokenizer.encode("the the The").tolist() == [*b"the", 256, *b" The"]


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
