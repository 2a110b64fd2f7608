"""Byte-pair encoding: the example everybody knows, GPT-2's published ids, and its own limits."""

import json
from pathlib import Path
from typing import Any

import pytest

from chainrule.errors import UserError
from chainrule.text.bpe import default_size, load_gpt2
from tests.shared_data import FOLDER, requires
from tests.text.samples import LINES, as_documents, library_ids, train, trained

VECTORS = FOLDER / "gpt2-bpe" / "test_vectors.json"
CASES: list[dict[str, Any]] = json.loads(VECTORS.read_text())["cases"] if VECTORS.exists() else []
TEXT = " ".join(f"{a}{b}" for a in ("walk", "talk", "jump", "look", "play") for b in ("s", "ed", "ing", "er") * 9)


def test_the_textbook_example_merges_aa_then_ab_then_both() -> None:
    # "aaabdaaabac" -> Z = aa, Y = ab, X = ZY -> "XdXac" (Gage, 1994)
    tokenizer = train("bpe", ["aaabdaaabac"], size=257 + 3)
    assert [tokenizer.token_text(id) for id in tokenizer.encode("aaabdaaabac")] == ["aaab", "d", "aaab", "a", "c"]
    assert [tokenizer.token_text(id) for id in range(256, 259)] == ["aa", "ab", "aaab"]


@pytest.mark.parametrize("size", [257, 258, 270])
def test_the_vocabulary_has_the_size_asked_for(size: int) -> None:
    tokenizer = train("bpe", [TEXT], size=size)
    assert (tokenizer.vocabulary_size, tokenizer.eos) == (size, size - 1)
    assert sorted(tokenizer.token_bytes[:256]) == [bytes([byte]) for byte in range(256)]


def test_merges_end_where_no_pair_is_left_that_occurs_often_enough() -> None:
    assert train("bpe", ["abcdef"], size=500).vocabulary_size == 257
    text = "ab ab ab xy xy"
    assert {b"ab", b"xy"} <= set(train("bpe", [text], size=500).token_bytes)
    assert b"xy" not in train("bpe", [text], size=500, min_count=3).token_bytes
    assert b"ab" in train("bpe", [text], size=500, min_count=3).token_bytes


def test_a_larger_vocabulary_never_needs_more_tokens() -> None:
    lengths = [len(train("bpe", [TEXT], size=size).encode(TEXT)) for size in (257, 260, 270, 290)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == len(TEXT.encode())


def test_the_default_size_grows_with_the_text_within_bounds() -> None:
    assert default_size(0) == default_size(10_000) == 512
    assert default_size(1 << 20) == 16_384 == default_size(1 << 40)
    sizes = [default_size(1 << bits) for bits in range(30)]
    assert sizes == sorted(sizes)
    assert train("bpe", list(LINES)).vocabulary_size <= 512


@pytest.mark.parametrize("size", [1, 255, 256])
def test_a_vocabulary_without_room_for_the_bytes_is_refused(size: int) -> None:
    with pytest.raises(UserError, match=f"at least 257 tokens, for 256 bytes and <eos>; got {size}"):
        train("bpe", ["text"], size=size)


def test_byte_pairs_cannot_be_closed() -> None:
    with pytest.raises(UserError, match="leave out closed_vocabulary"):
        train("closed bpe", ["text"])


@requires("gpt2-bpe")
def test_gpt2_has_its_50257_tokens() -> None:
    assert len(CASES) == 31
    tokenizer = trained("gpt2")
    assert (tokenizer.vocabulary_size, tokenizer.eos, tokenizer.kind) == (50_257, 50_256, "bpe")


@requires("gpt2-bpe")
@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_gpt2_s_published_vectors(case: dict[str, Any]) -> None:
    tokenizer = trained("gpt2")
    assert tokenizer.encode(case["text"]).tolist() == case["ids"]
    assert tokenizer.encode_documents(as_documents([case["text"]])).tolist() == [*case["ids"], tokenizer.eos]
    assert tokenizer.decode(case["ids"]) == case["text"]


@requires("gpt2-bpe")
def test_gpt2_s_published_vectors_in_one_batch() -> None:
    tokenizer = trained("gpt2")
    found = tokenizer.encode_documents(as_documents([case["text"] for case in CASES]))
    assert found.tolist() == [id for case in CASES for id in (*case["ids"], tokenizer.eos)]


@requires("gpt2-bpe")
@requires("tinyshakespeare")
def test_tinyshakespeare_has_the_published_number_of_gpt2_tokens() -> None:
    """nanoGPT's data/shakespeare: the first 90 % of the characters are for training."""
    text = (FOLDER / "tinyshakespeare" / "input.txt").read_text()
    cut = int(len(text) * 0.9)
    tokenizer = trained("gpt2")
    train_ids = tokenizer.encode_documents(as_documents([text[:cut]]))[:-1]
    validation_ids = tokenizer.encode_documents(as_documents([text[cut:]]))[:-1]
    assert (len(train_ids), len(validation_ids)) == (301_966, 36_059)
    assert tokenizer.encode(text[cut:]).tolist() == validation_ids.tolist()
    assert tokenizer.decode(train_ids) + tokenizer.decode(validation_ids) == text


@requires("wikitext2")
def test_real_text_gets_the_ids_of_the_library() -> None:
    lines = (FOLDER / "wikitext2" / "wiki.valid.raw").read_text(encoding="utf-8").splitlines()[:800]
    for name in ("bpe", "words", "characters"):
        tokenizer = train(name, lines[:200])
        assert tokenizer.encode_documents(as_documents(lines)).tolist() == library_ids(tokenizer, lines)


def spoil(folder: Path, name: str, text: str | None) -> Path:
    """A small GPT-2 folder with one of its files replaced, or left out."""
    vocabulary = {chr(letter): letter - 97 for letter in range(97, 123)} | {"ab": 26, "<|endoftext|>": 27}
    (folder / "encoder.json").write_text(json.dumps(vocabulary))
    (folder / "vocab.bpe").write_text("#version: 0.2\na b\n")
    if text is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("encoder.json", None), ("encoder.json", ""), ("encoder.json", "not JSON"), ("encoder.json", "[]"),
        ("encoder.json", '["a"]'), ("encoder.json", "null"), ("encoder.json", "5"), ("encoder.json", '{"a": "b"}'),
        ("encoder.json", '{"a": -1}'), ("encoder.json", '{"a": 4294967296}'), ("encoder.json", '{"a": 0}'),
        ("vocab.bpe", None), ("vocab.bpe", "#version\na b c\n"), ("vocab.bpe", "#version\nab\n"),
        ("vocab.bpe", "#version\na missing\n"), ("vocab.bpe", "#version\nb a\n"),
    ],
)  # fmt: skip
def test_a_damaged_gpt2_folder_is_refused(name: str, text: str | None, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"encoder\.json|vocab\.bpe"):
        load_gpt2(spoil(tmp_path, name, text))
