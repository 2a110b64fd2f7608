"""Which tokenizers make the same ids, and what is said of those that do not."""

from pathlib import Path

import numpy as np
import pytest

import chainrule
from chainrule.analysis.mix.tokens import check_same_tokens, have_same_tokens
from chainrule.errors import UserError
from tests.evaluation.toys import as_lines, tokenizer_of

ASCII = ("the cat sat", "on the mat")
ACCENTS = ("the café sat", "on the mat")


def test_bytes_and_characters_of_one_byte_are_the_same_tokens() -> None:
    """And they make the same ids of any text, also of characters that neither has met."""
    characters, byte = tokenizer_of("characters", ASCII), tokenizer_of("bytes")
    assert characters.fingerprint != byte.fingerprint
    assert have_same_tokens(characters, byte)
    documents = as_lines([*ASCII, "é 中 😀 \t\x01", "qqq"])
    np.testing.assert_array_equal(characters.encode_documents(documents), byte.encode_documents(documents))
    assert characters.eos == byte.eos


def test_characters_of_several_bytes_are_not() -> None:
    accents, byte = tokenizer_of("characters", ACCENTS), tokenizer_of("bytes")
    assert not have_same_tokens(accents, byte)
    assert not have_same_tokens(accents, tokenizer_of("characters", ASCII))
    documents = as_lines(["café"])
    assert accents.encode_documents(documents).tolist() != byte.encode_documents(documents).tolist()


@pytest.mark.parametrize(("first", "second"), [("words", "bytes"), ("words", "closed words"), ("characters", "words")])
def test_other_tokens_are_not(first: str, second: str) -> None:
    assert not have_same_tokens(tokenizer_of(first, ASCII), tokenizer_of(second, ASCII))
    assert have_same_tokens(tokenizer_of(first, ASCII), tokenizer_of(first, ASCII))


def test_closed_characters_hide_text_so_they_are_the_same_only_as_themselves() -> None:
    closed = tokenizer_of("closed characters", ASCII)
    assert have_same_tokens(closed, closed)
    assert not have_same_tokens(closed, tokenizer_of("characters", ASCII))


def test_the_refusal_says_why_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("\n".join(["the cat sat on the mat", "the dog sat on the log"] * 20))
    words = chainrule.train("t.txt", path="runs/w", tokenizer="words")
    bpe = chainrule.train("t.txt", path="runs/b", tokenizer="bpe")
    with pytest.raises(UserError) as refused:
        check_same_tokens([words, bpe])
    assert str(refused.value) == (
        "'runs/w' and 'runs/b' cut text into different tokens (words and bpe), and the probability of a token is that "
        "of all texts that begin with it, so they cannot be mixed exactly; train one with --tokenizer runs/w"
    )
