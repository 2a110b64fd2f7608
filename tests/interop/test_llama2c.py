"""llama2.c's stories260K says here what it says there, byte for byte; and files that are not what they say."""

import struct
from pathlib import Path

import numpy as np
import pytest

from chainrule.errors import UserError
from chainrule.generation import Sampling, sample
from chainrule.interop._layout import halves, pairs
from chainrule.interop.llama2c.read import read_llama2c, read_tokenizer
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
def test_files_cut_off_at_every_kilobyte_are_refused(tmp_path):
    cut = tmp_path / "cut.bin"
    whole = (STORIES / "stories260K.bin").read_bytes()
    for size in (5, *range(0, len(whole), 1024), len(whole) - 1):
        cut.write_bytes(whole[:size])
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
    whole = (STORIES / "tok512.bin").read_bytes()
    for data in (whole[:500], whole[:-1], whole + b"\0", whole + struct.pack("<fi", 0.0, 1) + b"a"):
        cut.write_bytes(data)
        with pytest.raises(UserError, match="has not exactly the 512 pieces"):
            read_llama2c(STORIES / "stories260K.bin", cut)
    with pytest.raises(UserError, match="cannot read the tokenizer"):
        read_llama2c(STORIES / "stories260K.bin", tmp_path / "none.bin")


def small(folder: Path, name: str = "model.bin") -> Path:
    """A model of 8 tokens, all of whose weights are 0.1."""
    width, hidden, layers, heads, vocabulary, length = 4, 6, 1, 2, 8, 5
    matrices = 4 * width * width + 3 * width * hidden
    count = vocabulary * width + layers * (2 * width + matrices) + width + 2 * length * (width // heads // 2)
    header = struct.pack("7i", width, hidden, layers, heads, heads, vocabulary, length)
    (folder / name).write_bytes(header + np.full(count, 0.1, np.float32).tobytes())
    return folder / name


def pieces(*names: str) -> bytes:
    data = [struct.pack("<fi", -float(id), len(name.encode())) + name.encode() for id, name in enumerate(names)]
    return struct.pack("<i", 9) + b"".join(data)


def raw_pieces(*names: bytes) -> bytes:
    data = [struct.pack("<fi", -float(id), len(name)) + name for id, name in enumerate(names)]
    return struct.pack("<i", 9) + b"".join(data)


NEWER = [f"<0x{byte:02X}>".encode() for byte in range(256)]
OLDER = {"bytes": [bytes([byte]) for byte in range(256)], "characters": [chr(byte).encode() for byte in range(256)]}
LETTERS = (" ", "a", "b", "A", "â", "ab", " a", " ab", "\n")
TEXTS = ("ab a", "A", "âb", "a\nb", "naïve 日本 ✓", " two  spaces", "\x00\xff", "")


@pytest.mark.parametrize("kind", OLDER)
def test_an_older_tokenizer_with_raw_bytes_cuts_text_as_the_newer_one_does(tmp_path: Path, kind: str):
    """Such as the tokenizer.bin of Llama 2, in which the byte 'A' and the letter 'A' are two pieces of one spelling."""
    first, letters = [b"<unk>", b"\n<s>\n", b"\n</s>\n"], [each.encode() for each in LETTERS]
    count = len(first) + 256 + len(letters)
    (tmp_path / "older.bin").write_bytes(raw_pieces(*first, *OLDER[kind], *letters))
    (tmp_path / "newer.bin").write_bytes(raw_pieces(*first, *NEWER, *letters))
    older, newer = (read_tokenizer(tmp_path / name, count) for name in ("older.bin", "newer.bin"))
    assert older.encode("A b").tolist() == [259, 262, 259, 261]  # the letter, not byte 68
    assert older.encode("✓").tolist() == [259, *(3 + byte for byte in "✓".encode())]
    for text in TEXTS:
        assert older.encode(text).tolist() == newer.encode(text).tolist()
        assert older.decode(older.encode(text)) == text
    assert older.decode([3 + ord("A"), 262]) == "AA"


@needs_stories
@pytest.mark.parametrize("kind", OLDER)
def test_a_published_tokenizer_in_the_older_form_is_the_same(tmp_path: Path, stories, kind: str):
    data, own, place = (STORIES / "tok512.bin").read_bytes(), [], 4
    while place < len(data):
        score, length = struct.unpack_from("<fi", data, place)
        own.append((score, data[place + 8 : place + 8 + length]))
        place += 8 + length
    assert [piece for _, piece in own[3:259]] == NEWER
    own[3:259] = [(score, raw) for (score, _), raw in zip(own[3:259], OLDER[kind], strict=True)]
    written = data[:4] + b"".join(struct.pack("<fi", score, len(piece)) + piece for score, piece in own)
    (tmp_path / "tok.bin").write_bytes(written)
    assert read_tokenizer(tmp_path / "tok.bin", 512).json == stories.tokenizer.json


EIGHT = ("<unk>", "<s>", "</s>", " ", "a", "b", "ab", " a")


def test_of_several_tokenizers_the_one_with_the_models_pieces_is_taken(tmp_path: Path):
    model = small(tmp_path)
    with pytest.raises(UserError, match=r"there is no tok\*.bin beside"):
        read_llama2c(model)
    (tmp_path / "tok10.bin").write_bytes(pieces(*EIGHT, "c", "d"))
    with pytest.raises(UserError, match="has not exactly the 8 pieces"):
        read_llama2c(model)
    (tmp_path / "tok9.bin").write_bytes(b"not pieces")
    with pytest.raises(UserError, match=r"none of the 2 tok\*.bin beside '.*' have the 8 pieces of the model; keep"):
        read_llama2c(model)
    (tmp_path / "tok8.bin").write_bytes(pieces(*EIGHT))
    assert read_llama2c(model).tokenizer.encode("ab").tolist() == [3, 6]
    (tmp_path / "tokenizer.bin").write_bytes(pieces(*EIGHT))
    with pytest.raises(UserError, match="2 of the 4"):
        read_llama2c(model)


@pytest.mark.parametrize("is_of_model", [True, False])
def test_files_cut_off_anywhere_are_refused(tmp_path: Path, is_of_model: bool):
    model, tokenizer = small(tmp_path), tmp_path / "tok8.bin"
    tokenizer.write_bytes(pieces(*EIGHT))
    assert read_llama2c(model).model.vocabulary_size == 8
    path = model if is_of_model else tokenizer
    whole = path.read_bytes()
    for size in (*range(0, len(whole), 5), len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(UserError, match="cut off|asks for"):
            read_llama2c(model, tokenizer)


def test_a_piece_of_a_million_characters_is_refused(tmp_path: Path):
    (tmp_path / "tok8.bin").write_bytes(pieces(*EIGHT[:-1], "a" * 1_000_000))
    with pytest.raises(UserError, match="has a piece of more than 512 characters"):
        read_llama2c(small(tmp_path))
