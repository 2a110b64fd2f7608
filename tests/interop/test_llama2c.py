"""llama2.c's stories260K says here what it says there, byte for byte; and files that are not what they say."""

import struct

import numpy as np
import pytest

from chainrule.errors import UserError
from chainrule.generation import Sampling, sample
from chainrule.interop.llama2c import halves, pairs, read_llama2c
from tests.shared_data import FOLDER

STORIES = FOLDER / "stories260K"
needs_stories = pytest.mark.skipif(not STORIES.is_dir(), reason="stories260K is not there")


@pytest.fixture(scope="module")
def stories():
    return read_llama2c(STORIES / "stories260K.bin", STORIES / "tok512.bin")


@needs_stories
def test_the_two_hundred_greedy_tokens_are_those_that_are_published(stories):
    found = sample(stories.model, stories.tokenizer, "", Sampling(temperature=0, max_tokens=200))[0]
    assert found.text == (STORIES / "expected_greedy_200.txt").read_text()


@needs_stories
def test_text_comes_back_and_begins_with_no_space(stories):
    tokenizer = stories.tokenizer
    for text in ("Once upon a time", "  two spaces", "naïve café 日本", "", "a\nb", " "):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.is_lossless


@needs_stories
def test_a_prompt_is_continued_with_its_spaces(stories):
    found = sample(stories.model, stories.tokenizer, "Once upon a", Sampling(temperature=0, max_tokens=3))[0]
    assert found.text.startswith(" time")


def test_pairs_undo_halves():
    matrix = np.arange(48.0).reshape(12, 4)
    np.testing.assert_array_equal(pairs(halves(matrix, 3), 3), matrix)
    np.testing.assert_array_equal(halves(matrix, 3)[:4, 0], [0, 8, 4, 12])


@needs_stories
@pytest.mark.parametrize("size", [0, 5, 28, 1000, 1_056_536])
def test_files_that_are_cut_off_are_refused(tmp_path, size):
    cut = tmp_path / "cut.bin"
    cut.write_bytes((STORIES / "stories260K.bin").read_bytes()[:size])
    with pytest.raises(UserError, match="is not a llama2.c file, or is cut off|asks for"):
        read_llama2c(cut, STORIES / "tok512.bin")


@needs_stories
@pytest.mark.parametrize("header", [(64, 172, 2**30, 8, 4, 512, 512), (64, 172, -5, 8, 4, 512, 512), (0,) * 7])
def test_headers_that_cannot_be_are_refused(tmp_path, header):
    file = tmp_path / "model.bin"
    file.write_bytes(struct.pack("7i", *header) + b"\0" * 100)
    with pytest.raises(UserError, match="is not a llama2.c file: its header says"):
        read_llama2c(file, STORIES / "tok512.bin")


@needs_stories
def test_a_tokenizer_that_is_cut_off_or_missing_is_refused(tmp_path):
    cut = tmp_path / "tok.bin"
    cut.write_bytes((STORIES / "tok512.bin").read_bytes()[:500])
    with pytest.raises(UserError, match="has fewer than the 512 pieces"):
        read_llama2c(STORIES / "stories260K.bin", cut)
    with pytest.raises(UserError, match="cannot read the tokenizer"):
        read_llama2c(STORIES / "stories260K.bin", tmp_path / "none.bin")
