"""Bytes: every id below 256 is the byte itself."""

import pytest
from hypothesis import given

from chainrule.errors import UserError
from tests.text.samples import SEEDED, any_text, train, trained


@SEEDED
@given(text=any_text)
def test_ids_are_the_bytes_of_utf_8(text: str) -> None:
    assert trained("bytes").encode(text).tolist() == list(text.encode())


def test_the_end_comes_after_the_last_byte_and_training_changes_nothing() -> None:
    tokenizer = train("bytes", ["any", "text"])
    assert (tokenizer.vocabulary_size, tokenizer.eos) == (257, 256)
    assert tokenizer.token_bytes == [bytes([byte]) for byte in range(256)] + [b""]
    assert tokenizer.fingerprint == trained("bytes").fingerprint


def test_bytes_cannot_be_closed() -> None:
    with pytest.raises(UserError, match="leave out closed_vocabulary"):
        train("closed bytes", ["a"])
