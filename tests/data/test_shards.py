"""Token shards: every id comes back, every token knows its place, and damage is told."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.data.documents import Documents, cut
from chainrule.data.shards import INDEX, Place, ShardWriter, TokenShards, write_index
from chainrule.errors import UserError

EOS = 256


class _Bytes:
    """All that a place wants of a tokenizer: what its tokens stand for."""

    token_bytes = [*(bytes([byte]) for byte in range(256)), b""]  # noqa: RUF012


BYTES: Any = _Bytes()


def as_documents(text: str, path: str = "t", unit: str = "line") -> Documents:
    return cut(np.frombuffer(text.encode(), np.uint8), unit, path)


def encode(documents: Documents) -> np.ndarray:
    """Bytes as ids, the end after each document."""
    spans = zip(documents.starts, documents.ends, strict=True)
    return np.concatenate([np.append(documents.buffer[a:b].astype(np.uint32), EOS) for a, b in spans])


def write(
    folder: Path, batches: Sequence[Documents], tokens_per_shard: int = 1 << 20, name: str = "train"
) -> TokenShards:
    folder.mkdir(exist_ok=True)
    with ShardWriter(folder, name, EOS + 1, EOS, tokens_per_shard) as writer:
        for documents in batches:
            writer.append(documents, encode(documents) if len(documents) else np.zeros(0, np.uint32))
        part = writer.close()
    write_index(folder, {name: part}, {name: writer.paths}, writer.dtype, "a fingerprint")
    return TokenShards(folder, name)


def many_batches(count: int = 40) -> list[Documents]:
    """Small batches of lines of three files, blank lines among them."""
    generator = np.random.default_rng(0)
    batches = []
    for number in range(count):
        lengths = generator.integers(0, 12, 6)
        text = "é\n" + "\n".join("x" * length for length in lengths)
        batches.append(as_documents(text, f"file {number * 3 // count}"))
    return batches


@pytest.mark.parametrize("tokens_per_shard", [1, 10, 100, 1000, 1 << 20])
def test_every_id_comes_back_in_order_whatever_the_size_of_shards(tmp_path: Path, tokens_per_shard: int) -> None:
    batches = many_batches()
    shards = write(tmp_path, batches, tokens_per_shard)
    streams = [np.array(shards.tokens(shard)) for shard in range(len(shards))]
    expected = np.concatenate([encode(documents) for documents in batches])
    assert np.concatenate([stream[1:] for stream in streams]).tolist() == expected.tolist()
    assert all(stream[0] == stream[-1] == EOS for stream in streams)
    assert (len(shards) == 1) == (tokens_per_shard == 1 << 20)
    assert shards.part.tokens == len(expected)
    assert shards.part.documents == sum(map(len, batches)) == sum(int(str(s["documents"])) for s in shards.part.shards)
    assert shards.part.text_bytes == sum(int(documents.sizes.sum()) for documents in batches)
    largest = max(len(encode(documents)) for documents in batches)
    assert all(len(stream) <= max(tokens_per_shard, 1 + largest) for stream in streams)


@pytest.mark.parametrize("tokens_per_shard", [1, 50, 1 << 20])
def test_every_token_knows_its_file_and_line(tmp_path: Path, tokens_per_shard: int) -> None:
    batches = many_batches()
    shards = write(tmp_path, batches, tokens_per_shard)
    expected = [
        Place(documents.path, int(line))
        for documents in batches
        for line, size in zip(documents.lines, documents.ends - documents.starts, strict=True)
        for _ in range(int(size) + 1)
    ]
    everywhere = [(shard, position) for shard in range(len(shards)) for position in range(1, len(shards.tokens(shard)))]
    assert len(everywhere) == len(expected)
    for index in np.random.default_rng(0).integers(0, len(expected), 150):
        assert shards.place(*everywhere[index], BYTES) == expected[index]
    assert shards.place(0, 0, BYTES) == expected[0], "the mark at the front belongs to the first document"


def test_a_place_within_a_long_document_has_its_own_line(tmp_path: Path) -> None:
    text = "\n\none\ntwo\n\nthree"
    shards = write(tmp_path, [as_documents(text, unit="block")])
    stream = shards.tokens(0).tolist()
    lines = [shards.place(0, stream.index(ord(letter)), BYTES).line for letter in "owh"]
    assert lines == [text[: text.index(word)].count("\n") + 1 for word in ("one", "two", "three")]


def test_an_empty_part_is_one_end_mark(tmp_path: Path) -> None:
    shards = write(tmp_path, [])
    assert (len(shards), shards.tokens(0).tolist()) == (1, [EOS])
    assert (shards.part.documents, shards.part.tokens, shards.part.text_bytes) == (0, 0, 0)


def test_a_batch_without_documents_changes_nothing(tmp_path: Path) -> None:
    documents = as_documents("a\nb")
    nothing = documents.select(np.zeros(2, bool))
    with_nothing = write(tmp_path / "a", [nothing, documents, nothing])
    assert with_nothing.part == write(tmp_path / "b", [documents]).part
    assert with_nothing.tokens(0).tolist() == [EOS, ord("a"), EOS, ord("b"), EOS]


@pytest.mark.parametrize(
    ("vocabulary_size", "dtype"), [(257, np.uint16), (65_536, np.uint16), (65_537, np.uint32), (1 << 20, np.uint32)]
)
def test_two_bytes_are_enough_for_65536_tokens_and_no_more(tmp_path: Path, vocabulary_size: int, dtype: type) -> None:
    eos = vocabulary_size - 1
    with ShardWriter(tmp_path, "train", vocabulary_size, eos) as writer:
        writer.append(as_documents("ab"), np.array([0, eos - 1, eos], np.uint32))
        part = writer.close()
    write_index(tmp_path, {"train": part}, {"train": writer.paths}, writer.dtype, "")
    shards = TokenShards(tmp_path)
    assert shards.tokens(0).dtype == shards.dtype == dtype
    assert shards.tokens(0).tolist() == [eos, 0, eos - 1, eos]
    assert (tmp_path / "train-00000.bin").stat().st_size == 4 * np.dtype(dtype).itemsize


def test_two_parts_share_a_folder_and_an_index(tmp_path: Path) -> None:
    written = {}
    for name, text in [("train", "a\nb"), ("validation", "c")]:
        with ShardWriter(tmp_path, name, EOS + 1, EOS) as writer:
            writer.append(as_documents(text, name), encode(as_documents(text)))
            written[name] = (writer.close(), writer.paths, writer.dtype)
    write_index(
        tmp_path,
        {name: part for name, (part, _, _) in written.items()},
        {name: paths for name, (_, paths, _) in written.items()},
        written["train"][2],
        "a fingerprint",
    )
    train, validation = TokenShards(tmp_path, "train"), TokenShards(tmp_path, "validation")
    assert (train.tokens(0).tolist(), validation.tokens(0).tolist()) == ([256, 97, 256, 98, 256], [256, 99, 256])
    assert (train.paths, validation.paths) == (["train"], ["validation"])
    assert train.tokenizer_hash == "a fingerprint"


# The hash of the text


def text_hash(folder: Path, *batches: Documents) -> str:
    return write(folder, batches).part.text_hash


@settings(deadline=None, derandomize=True, max_examples=40)
@given(lines=st.lists(st.sampled_from(["a", "b", "ab", "é", "a b"]), min_size=1, max_size=6), data=st.data())
def test_the_hash_changes_when_the_text_does(
    lines: list[str], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    others = data.draw(st.lists(st.sampled_from(["a", "b", "ab", "é", "a b"]), min_size=1, max_size=6))
    hashes = [text_hash(folder, as_documents("\n".join(each))) for each in (lines, lines, others)]
    assert hashes[0] == hashes[1]
    assert (hashes[0] == hashes[2]) == (lines == others)


def test_the_hash_changes_when_only_the_edges_of_records_do(tmp_path: Path) -> None:
    """Records have no separator: {"ab", "c"} and {"a", "bc"} are other documents, though the same letters."""

    def records(*texts: str) -> Documents:
        ends = np.cumsum([len(text) for text in texts])
        buffer = np.frombuffer("".join(texts).encode(), np.uint8)
        starts = np.concatenate([[0], ends[:-1]])
        return Documents(buffer, starts, ends, np.arange(1, len(texts) + 1), "t", 0)

    assert text_hash(tmp_path, records("ab", "c")) != text_hash(tmp_path, records("a", "bc"))


def test_the_hash_is_of_the_text_not_of_how_it_came_in_batches(tmp_path: Path) -> None:
    at_once = text_hash(tmp_path, as_documents("one\ntwo\nthree"))
    assert text_hash(tmp_path, as_documents("one\ntwo"), as_documents("three")) == at_once
    assert text_hash(tmp_path, as_documents("one"), as_documents("two"), as_documents("three")) == at_once


# Damage


@pytest.mark.parametrize("size", [0, 1, 7, 8, -2, -1])
def test_a_truncated_shard_is_refused(tmp_path: Path, size: int) -> None:
    shards = write(tmp_path, many_batches(5))
    path = tmp_path / "train-00000.bin"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(UserError, match=r"train-00000\.bin.*train again"):
        shards.tokens(0)


def test_a_shard_that_grew_is_refused(tmp_path: Path) -> None:
    shards = write(tmp_path, many_batches(5))
    path = tmp_path / "train-00000.bin"
    path.write_bytes(path.read_bytes() + b"\0\0")
    with pytest.raises(UserError, match="instead of"):
        shards.tokens(0)


def test_a_missing_shard_is_refused(tmp_path: Path) -> None:
    shards = write(tmp_path, many_batches(5))
    (tmp_path / "train-00000.bin").unlink()
    with pytest.raises(UserError, match=r"train-00000\.bin"):
        shards.tokens(0)


@pytest.mark.parametrize("size", [0, 4, 8, 20, 100, -1])
def test_a_truncated_table_of_documents_is_refused(tmp_path: Path, size: int) -> None:
    shards = write(tmp_path, many_batches(5))
    path = tmp_path / "train-00000.documents.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(UserError, match=r"train-00000\.documents\.safetensors"):
        shards.place(0, 3, BYTES)


def test_a_missing_table_of_documents_is_refused(tmp_path: Path) -> None:
    shards = write(tmp_path, many_batches(5))
    (tmp_path / "train-00000.documents.safetensors").unlink()
    with pytest.raises(UserError, match=r"train-00000\.documents\.safetensors"):
        shards.place(0, 3, BYTES)


def test_a_truncated_index_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    write(tmp_path, many_batches(5))
    text = (tmp_path / INDEX).read_text()
    for size in range(len(text)):
        (tmp_path / INDEX).write_text(text[:size])
        with pytest.raises(UserError, match="holds no token shards for 'train'"):
            TokenShards(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["null", "5", "[]", "{}", '"x"', '{"parts": null}', '{"parts": []}', '{"parts": {}}', "[" * 100_000, "\x00"],
)
def test_an_index_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / INDEX).write_text(text)
    with pytest.raises(UserError, match="holds no token shards for 'train'"):
        TokenShards(tmp_path)


@pytest.mark.parametrize("place", [(), ("shards",), ("shards", 0), ("shards", 0, "tokens")])
def test_an_index_with_a_wrong_value_is_refused(tmp_path: Path, place: tuple[str | int, ...]) -> None:
    write(tmp_path, many_batches(5))
    text = (tmp_path / INDEX).read_text()
    for value in (None, 5, "x", -1):
        index = json.loads(text)
        target = index["parts"]
        *path, last = ("train", *place)
        for key in path:
            target = target[key]
        target[last] = value
        (tmp_path / INDEX).write_text(json.dumps(index))
        with pytest.raises(UserError, match="train again"):
            TokenShards(tmp_path).tokens(0)


def test_a_folder_without_shards_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(UserError, match="holds no token shards"):
            TokenShards(folder)


def test_a_part_that_is_not_there_is_refused(tmp_path: Path) -> None:
    write(tmp_path, many_batches(5))
    with pytest.raises(UserError, match="no token shards for 'validation'"):
        TokenShards(tmp_path, "validation")
