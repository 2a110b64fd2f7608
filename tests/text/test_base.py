"""What every tokenizer keeps: the text, whatever it is; the library's ids, on every path; one file to hold it all."""

import base64
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from chainrule.errors import UserError
from chainrule.interop._sentencepiece import make_bpe_tokenizer as sentencepiece
from chainrule.text.base import EOS, Tokenizer, Vocabulary, byte_level
from chainrule.text.pieces import ADDED_SPACE
from tests.shared_data import requires
from tests.text.samples import (
    CLOSED,
    LINES,
    OPEN,
    SEEDED,
    SPECIAL,
    TRICKY,
    any_text,
    as_documents,
    batches_of_texts,
    library,
    library_ids,
    train,
    trained,
)

GPT2 = pytest.param("gpt2", marks=requires("gpt2-bpe"))


# Text and back


@pytest.mark.parametrize("name", [*OPEN, GPT2])
@SEEDED
@given(text=any_text)
def test_decode_inverts_encode_for_any_text(name: str, text: str) -> None:
    tokenizer = trained(name)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    if name != "words":  # in which spaces are added
        assert b"".join(tokenizer.token_bytes[id] for id in ids) == text.encode()


@pytest.mark.parametrize("name", [*OPEN, GPT2])
@SEEDED
@given(text=any_text)
def test_ends_cut_a_text_into_what_its_tokens_spell(name: str, text: str) -> None:
    tokenizer = trained(name)
    ids = tokenizer.encode(text)
    ends = [0, *tokenizer.ends(ids).tolist()]
    assert ends[-1] == len(text.encode())
    for id, begin, end in zip(ids, ends, ends[1:], strict=False):
        found, spelled = text.encode()[begin:end], tokenizer.token_bytes[id]
        assert found == spelled or (name == "words" and b" " + found == spelled)


@pytest.mark.parametrize("name", [*OPEN, *CLOSED, GPT2])
@SEEDED
@given(text=any_text, data=st.data())
def test_parts_of_a_text_join_to_the_text(name: str, text: str, data: st.DataObject) -> None:
    tokenizer = trained(name)
    ids = tokenizer.encode(text)
    first, second = sorted(data.draw(st.tuples(*[st.integers(0, len(ids))] * 2)))
    parts = tokenizer.decode_parts([ids[:first], ids[first:second], ids[second:]])
    assert "".join(parts) == tokenizer.decode(ids)


@pytest.mark.parametrize("name", [*OPEN, GPT2])
def test_decode_inverts_encode_for_texts_known_to_be_hard(name: str) -> None:
    tokenizer = trained(name)
    for text in ("", *TRICKY, *LINES, "".join(TRICKY), "a" * 5000, " " * 5000, "é" * 999):
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("name", ["closed characters"])
@SEEDED
@given(text=st.text(alphabet=sorted(set("".join(LINES)) - set("\n"))))
def test_closed_characters_give_back_text_of_known_characters(name: str, text: str) -> None:
    tokenizer = trained(name)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.unknown not in tokenizer.encode(text)


@SEEDED
@given(words=st.lists(st.sampled_from(sorted({word for line in LINES for word in line.split()}))))
def test_closed_words_give_back_known_words_with_single_spaces(words: list[str]) -> None:
    tokenizer = trained("closed words")
    assert tokenizer.decode(tokenizer.encode("\t ".join(words))) == " ".join(words)


# The fast path


@pytest.mark.parametrize("name", [*OPEN, *CLOSED, GPT2])
@SEEDED
@given(batches=batches_of_texts)
def test_documents_get_the_ids_of_the_library_and_an_end_each(name: str, batches: list[list[str]]) -> None:
    tokenizer = trained(name)
    for texts in batches:
        found = tokenizer.encode_documents(as_documents(texts))
        assert found.tolist() == library_ids(tokenizer, texts)
        assert found.tolist() == [id for text in texts for id in (*tokenizer.encode(text).tolist(), tokenizer.eos)]


@pytest.mark.parametrize("name", [*OPEN, *CLOSED, GPT2])
def test_pieces_met_before_keep_their_ids(name: str) -> None:
    tokenizer = trained(name)
    texts = [*LINES, "", *TRICKY[:20], "".join(LINES)]
    first = tokenizer.encode_documents(as_documents(texts)).tolist()
    tokenizer.encode_documents(as_documents(["other words", "zyx 987 §§§"]))
    assert tokenizer.encode_documents(as_documents(texts)).tolist() == first == library_ids(tokenizer, texts)


@pytest.mark.parametrize("name", [*OPEN, *CLOSED])
def test_no_documents_have_no_tokens(name: str) -> None:
    assert trained(name).encode_documents(as_documents([])).tolist() == []
    assert trained(name).encode_documents(as_documents(["", ""])).tolist() == [trained(name).eos] * 2


@pytest.mark.parametrize("name", [*OPEN, *CLOSED])
def test_documents_are_read_where_they_lie_in_the_buffer(name: str) -> None:
    documents = as_documents(["not this", "é the cat", "nor this", "日本 mat"], b" | ")
    found = trained(name).encode_documents(documents.select(np.array([False, True, False, True])))
    assert found.tolist() == library_ids(trained(name), ["é the cat", "日本 mat"])


# What text can and cannot say


@pytest.mark.parametrize("name", [*OPEN, *CLOSED, GPT2])
@SEEDED
@given(text=st.lists(st.one_of(st.sampled_from([*SPECIAL, " "]), st.text(max_size=3)), max_size=8).map("".join))
def test_no_text_spells_the_end_of_a_document(name: str, text: str) -> None:
    tokenizer = trained(name)
    assert tokenizer.eos not in tokenizer.encode(text)
    assert tokenizer.encode_documents(as_documents([text])).tolist().count(tokenizer.eos) == 1


@pytest.mark.parametrize("name", [*OPEN, *CLOSED])
@pytest.mark.parametrize("special", SPECIAL)
def test_no_text_spells_the_end_even_if_training_text_did(name: str, special: str) -> None:
    lines = [f"{special} the cat {special}", f"{special} the mat", special]
    tokenizer = train(name, lines, **({"min_count": 1} if name == "words" else {}))
    assert tokenizer.eos == tokenizer.vocabulary_size - 1
    for line in lines:
        assert tokenizer.eos not in tokenizer.encode(line)
        assert tokenizer.encode_documents(as_documents([line])).tolist().count(tokenizer.eos) == 1


@pytest.mark.parametrize("name", OPEN)
@pytest.mark.parametrize("unseen", ["xylophonist", " ☃", "ж", "𐍈", "\u0378", "\x01"])
def test_open_vocabularies_spell_what_they_have_not_seen_in_bytes(name: str, unseen: str) -> None:
    tokenizer = trained(name)
    assert not tokenizer.is_closed
    assert tokenizer.unknown is None
    if name == "bytes" or (name == "characters" and len(unseen) == 1):
        assert tokenizer.encode(unseen).tolist() == list(unseen.encode())
    if name == "words":  # their beginning is the space, here an added one
        assert tokenizer.encode(unseen.strip()).tolist() == [*b" " + unseen.strip().encode()]
    assert tokenizer.decode(tokenizer.encode(unseen)) == unseen


def test_closed_vocabularies_map_what_they_have_not_seen_to_unknown() -> None:
    words, characters = trained("closed words"), trained("closed characters")
    assert words.is_closed
    assert characters.is_closed
    assert [words.token_text(id) for id in words.encode("the xylophonist sat")] == ["the", "<unk>", "sat"]
    assert words.encode("xylophonist ☃").tolist() == [words.unknown] * 2
    assert [characters.token_text(id) for id in characters.encode("c☃t")] == ["c", "<unk>", "t"]


def test_unknown_written_in_text_is_unknown_to_closed_words_alone() -> None:
    # The Penn Treebank writes <unk> for words outside its vocabulary.
    assert trained("closed words").encode("<unk> the").tolist()[0] == trained("closed words").unknown
    assert trained("closed characters").unknown not in trained("closed characters").encode("<unk>")
    for name in OPEN:
        assert trained(name).decode(trained(name).encode("<unk>")) == "<unk>"


# A stream of tokens


@pytest.mark.parametrize("name", [*OPEN, *CLOSED, GPT2])
@SEEDED
@given(data=st.data())
def test_ids_decoded_one_by_one_join_to_the_text_the_library_decodes(name: str, data: st.DataObject) -> None:
    # Ids in no order spell broken UTF-8 too.
    tokenizer = trained(name)
    ids = data.draw(st.lists(st.integers(0, min(tokenizer.vocabulary_size, 600) - 1)))
    stream = tokenizer.stream()
    parts = [stream.feed(id) for id in ids] + [stream.flush()]
    assert "".join(parts) == tokenizer.decode(ids) == library(tokenizer).decode(ids)


@SEEDED
@given(pieces=st.lists(st.sampled_from([" ", "  ", "\n", " the", " 日本語の", ",", "t", "\u3000", "é", "\t"])))
def test_words_and_white_space_in_any_order_are_streamed_as_the_library_decodes_them(pieces: list[str]) -> None:
    tokenizer = trained("words")
    ids = [int(id) for piece in pieces for id in tokenizer.encode_within(piece)]
    stream = tokenizer.stream()
    shown = "".join([stream.feed(id) for id in ids]) + stream.flush()
    assert shown == tokenizer.decode(ids) == library(tokenizer).decode(ids)


@pytest.mark.parametrize("name", [*OPEN, GPT2])
@SEEDED
@given(text=any_text)
def test_a_stream_emits_every_character_as_soon_as_it_is_whole(name: str, text: str) -> None:
    tokenizer = trained(name)
    stream = tokenizer.stream()
    emitted, seen = "", b""
    for id in tokenizer.encode(text):
        emitted += stream.feed(int(id))
        seen += tokenizer.token_bytes[id]
        whole = seen.decode("utf-8", "ignore")
        if name == "words":  # a space is held back while it may be an added one
            whole = ADDED_SPACE.sub("", whole)
            whole = whole.removesuffix(" ") if whole.removesuffix(" ") == emitted else whole
        assert emitted == whole
    assert emitted + stream.flush() == text


@pytest.mark.parametrize("name", [*OPEN, *CLOSED])
def test_the_end_of_a_document_decodes_to_nothing_and_shows_by_name(name: str) -> None:
    tokenizer = trained(name)
    ids = [tokenizer.eos, *tokenizer.encode("the cat"), tokenizer.eos]
    assert tokenizer.decode(ids) == "the cat"
    assert tokenizer.token_bytes[tokenizer.eos] == b""
    assert tokenizer.token_text(tokenizer.eos) == EOS


def test_a_token_that_is_half_a_character_shows_its_bytes() -> None:
    assert [trained("bytes").token_text(id) for id in trained("bytes").encode("a€")] == ["a", "\\xe2", "\\x82", "\\xac"]
    assert trained("words").token_text(int(trained("words").encode("on the")[-1])) == " the"


# Saved and loaded


@pytest.mark.parametrize("name", [*OPEN, *CLOSED, GPT2])
def test_a_loaded_tokenizer_is_the_one_saved(name: str, tmp_path: Path) -> None:
    tokenizer = trained(name)
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    texts = [*LINES, *TRICKY, ""]
    assert loaded.fingerprint == tokenizer.fingerprint
    for field in ("vocabulary_size", "eos", "unknown", "is_closed", "kind", "token_bytes", "joins_with_spaces"):
        assert getattr(loaded, field) == getattr(tokenizer, field)
    assert [loaded.encode(text).tolist() for text in texts] == [tokenizer.encode(text).tolist() for text in texts]
    assert loaded.encode_documents(as_documents(texts)).tolist() == library_ids(tokenizer, texts)


@pytest.mark.parametrize("name", [*OPEN, *CLOSED, GPT2])
def test_a_saved_file_is_read_by_the_library_with_the_same_ids_and_text(name: str, tmp_path: Path) -> None:
    tokenizer = trained(name)
    tokenizer.save(tmp_path / "tokenizer.json")
    backend = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert backend.get_vocab_size() == tokenizer.vocabulary_size
    for text in [*LINES, *TRICKY]:
        if text not in SPECIAL:
            ids = backend.encode(text, add_special_tokens=False).ids
            assert ids == tokenizer.encode(text).tolist()
            assert backend.decode(ids) == tokenizer.decode(ids)


def test_fingerprints_tell_tokenizers_apart() -> None:
    assert len({trained(name).fingerprint for name in (*OPEN, *CLOSED)}) == 6


@pytest.mark.parametrize("name", OPEN)
def test_a_tokenizer_knows_its_kind(name: str) -> None:
    assert trained(name).kind == name


def test_closed_tokenizers_know_their_kind() -> None:
    assert trained("closed words").kind == "words"
    assert trained("closed characters").kind == "characters"


def test_byte_pairs_without_a_single_merge_are_still_byte_pairs() -> None:
    assert train("bpe", ["ab ab ab"], size=257).kind == "bpe"
    assert train("bpe", ["xyz"]).kind == "bpe"


def test_a_closed_vocabulary_of_255_characters_is_not_bytes() -> None:
    tokenizer = train("closed characters", ["".join(map(chr, range(0x400, 0x400 + 255)))])
    assert (tokenizer.vocabulary_size, tokenizer.kind) == (257, "characters")


# Files made elsewhere


def altered(tokenizer: Tokenizer, **changes: Any) -> str:
    return json.dumps(json.loads(tokenizer.json) | changes)


def load_text(folder: Path, text: str | bytes, end: str | None = None) -> Tokenizer:
    path = folder / "tokenizer.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return Tokenizer.load(path, end)


TRUNCATION = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
PADDING = {
    "strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None,
    "pad_id": 0, "pad_type_id": 0, "pad_token": "!",
}  # fmt: skip


@pytest.mark.parametrize("name", ["bpe", "closed words"])
@pytest.mark.parametrize("setting", [{"truncation": TRUNCATION}, {"padding": PADDING}], ids=["truncation", "padding"])
def test_a_file_that_truncates_or_pads_for_another_model_loses_and_adds_no_token(
    name: str, setting: dict[str, Any], tmp_path: Path
) -> None:
    loaded = load_text(tmp_path, altered(trained(name), **setting))
    for line in LINES:
        assert loaded.encode(line).tolist() == trained(name).encode(line).tolist()
    assert loaded.encode_documents(as_documents(LINES)).tolist() == library_ids(trained(name), LINES)


def test_a_file_that_drops_merges_at_random_gives_the_same_ids_every_time(tmp_path: Path) -> None:
    model = json.loads(trained("bpe").json)["model"] | {"dropout": 0.5}
    loaded = load_text(tmp_path, altered(trained("bpe"), model=model))
    for line in LINES:
        assert loaded.encode(line).tolist() == trained("bpe").encode(line).tolist()


def word_level(unknown: str, added: list[dict[str, Any]]) -> str:
    words = {unknown: 0, "the": 1, "cat": 2, "</s>": 3}
    settings = json.loads(trained("closed words").json)
    model = {"type": "WordLevel", "vocab": words, "unk_token": unknown}
    return json.dumps(settings | {"model": model, "added_tokens": added})


def added_token(content: str, id: int, special: bool) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": id, "content": content, "special": special} | flags


def test_a_file_may_give_the_unknown_word_another_name(tmp_path: Path) -> None:
    settings = json.loads(word_level("[UNK]", [added_token("</s>", 3, special=True)]))
    del settings["model"]["vocab"]["</s>"]
    loaded = load_text(tmp_path, json.dumps(settings))
    assert loaded.encode("the dog").tolist() == [1, 0]
    assert loaded.unknown == 0


def test_a_file_whose_unknown_word_is_missing_is_refused(tmp_path: Path) -> None:
    settings = json.loads(trained("closed words").json)
    settings["model"]["unk_token"] = "[UNK]"
    with pytest.raises(UserError):
        load_text(tmp_path, json.dumps(settings))


@pytest.mark.parametrize("special", [True, False, None])
def test_a_file_whose_end_token_is_a_word_of_its_vocabulary_is_refused_or_never_spells_it(
    special: bool | None, tmp_path: Path
) -> None:
    added = [] if special is None else [added_token("</s>", 3, special)]
    try:
        loaded = load_text(tmp_path, word_level("<unk>", added))
    except UserError:
        return
    assert loaded.eos not in loaded.encode("the </s> cat")
    assert loaded.encode_documents(as_documents(["the </s> cat"])).tolist().count(loaded.eos) == 1


def test_a_file_with_another_decoder_is_refused_or_decodes_as_the_library_does(tmp_path: Path) -> None:
    backend = tokenizers.Tokenizer(tokenizers.models.Unigram([("<unk>", 0.0), ("▁the", -1.0), ("▁cat", -1.0)], 0))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    backend.decoder = tokenizers.decoders.Metaspace()
    backend.add_special_tokens([EOS])
    try:
        loaded = load_text(tmp_path, backend.to_str())
    except UserError:
        return
    assert loaded.decode(loaded.encode("the cat")) == backend.decode(backend.encode("the cat").ids) == "the cat"


def test_a_file_without_an_end_token_is_refused(tmp_path: Path) -> None:
    settings = json.loads(trained("bytes").json) | {"added_tokens": []}
    with pytest.raises(UserError, match="has no end token"):
        load_text(tmp_path, json.dumps(settings))


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "null", "5", '"tokenizer"', "[]", "{}", '{"version": "1.0"}', '{"model": null}', '{"model": {}}',
        "not JSON", "{" * 100, "[" * 100_000, b"\xff\xfe", b"\x00" * 100, b"PK\x03\x04", '{"model": {"type": "BPE"}}',
        '{"model": {"type": "BPE", "vocab": {}, "merges": []}}', '{"model": {"type": "WordLevel", "vocab": {"a": 0}}}',
        '{"version": "1.0", "model": {"type": "Unigram", "vocab": [], "unk_id": 7}}',
    ],
)  # fmt: skip
def test_a_file_that_is_no_tokenizer_is_refused(text: str | bytes, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"tokenizer\.json|end token"):
        load_text(tmp_path, text)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(UserError, match="cannot read the tokenizer"):
            Tokenizer.load(path)


@pytest.mark.parametrize("name", ["bpe", "closed words"])
def test_a_truncated_file_is_refused_wherever_it_ends(name: str, tmp_path: Path) -> None:
    text = trained(name).json.encode()
    for size in np.linspace(0, len(text) - 1, 60).astype(int):
        with pytest.raises(UserError, match=r"tokenizer\.json"):
            load_text(tmp_path, text[:size])


@pytest.mark.parametrize(
    "change",
    [
        {"merges": [["zz", "qq"]]}, {"merges": [["t"]]}, {"merges": ["t"]}, {"merges": [["t", "h", "e"]]},
        {"merges": 5}, {"merges": [[0, 1]]}, {"vocab": []}, {"vocab": {"t": -1}}, {"vocab": {"t": 1 << 32}},
        {"vocab": {"t": "0"}}, {"vocab": {"t": 0.5}}, {"type": "Nonsense"}, {"dropout": 7}, {"unk_token": 3},
        {"continuing_subword_prefix": "longer than any token, which makes the library panic"},
    ],
)  # fmt: skip
def test_a_file_whose_model_is_damaged_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    model = json.loads(trained("bpe").json)["model"]
    with pytest.raises(UserError):
        load_text(tmp_path, altered(trained("bpe"), model=model | change))


@pytest.mark.parametrize("huge", [300_000, (1 << 32) - 1])
def test_ids_beyond_the_vocabulary_are_refused_or_counted(huge: int, tmp_path: Path) -> None:
    """A model has vocabulary_size logits; an id beyond them is an access out of bounds."""
    model = json.loads(trained("bpe").json)["model"]
    model["vocab"]["z"] = huge
    try:
        loaded = load_text(tmp_path, altered(trained("bpe"), model=model))
    except UserError:
        return
    assert loaded.encode("z").max() < loaded.vocabulary_size
    assert loaded.decode(loaded.encode("z")) == "z"


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every key and index of a nest of JSON, from the top."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


@pytest.mark.parametrize("name", ["bytes", "bpe", "closed words", "closed characters"])
def test_a_file_with_any_one_value_replaced_is_refused_or_is_a_tokenizer(name: str, tmp_path: Path) -> None:
    tokenizer = train(name, ["ab ab ab c"])
    for spot in places(json.loads(tokenizer.json)):
        if "vocab" in spot[:-1] or spot[-1] == "dropout":
            continue
        for value in (None, -1, 1 << 40, 0.5, "", "x", [], [[]], {}, {"type": "x"}, True):
            settings = json.loads(tokenizer.json)
            target = settings
            for key in spot[:-1]:
                target = target[key]
            target[spot[-1]] = value
            try:
                loaded = load_text(tmp_path, json.dumps(settings))
            except UserError:
                continue
            ids = loaded.encode_documents(as_documents(["ab c", "<eos> zé"])).tolist()
            assert ids == library_ids(loaded, ["ab c", "<eos> zé"]), (spot, value)
            assert all(id < loaded.vocabulary_size for id in ids), (spot, value)
            loaded.decode(ids)


@pytest.mark.parametrize("bad", [{"size": 0}, {"size": -5}, {"min_count": 0}, {"min_count": -1}])
def test_a_vocabulary_of_nothing_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(UserError, match="must be at least 1"):
        Vocabulary(**bad)


def test_a_text_starts_and_ends_with_eos_unless_told_otherwise() -> None:
    tokenizer = trained("bpe")
    assert tokenizer.start == tokenizer.eos
    assert tokenizer.end == "<eos>"
    assert not tokenizer.marks_spaces


def test_of_several_special_tokens_the_one_that_is_named_ends_texts(tmp_path: Path) -> None:
    backend = tokenizers.Tokenizer.from_str(trained("bpe").json)
    backend.add_special_tokens(["<|turn|>", "</s>"])
    first = Tokenizer(backend)
    assert first.end == "<eos>"
    other = load_text(tmp_path, backend.to_str(), "<|turn|>")
    assert (other.end, other.eos) == ("<|turn|>", other.backend.token_to_id("<|turn|>"))
    assert other.eos not in other.encode("say <|turn|> and </s>")
    with pytest.raises(UserError, match="none of <|nothing|> is a special token".replace("|", "[|]")):
        load_text(tmp_path, backend.to_str(), "<|nothing|>")


def test_pieces_that_mark_spaces_are_decoded_as_sentencepiece_does() -> None:
    """By hand: ▁ is a space, the first of a text is not its own, <0xE2> is a byte of a character."""
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "▁a", "ab", "▁ab"]
    tokenizer = sentencepiece(names, [0.0] * 259 + [-9.0, -9.0, -9.0, -3.0, -1.0, -2.0], "of this test")
    ids = {name: id for id, name in enumerate(names)}
    assert tokenizer.marks_spaces
    assert tokenizer.is_lossless
    assert (tokenizer.start, tokenizer.eos) == (1, 2)
    assert tokenizer.encode("ab a").tolist() == [ids["▁ab"], ids["▁a"]]  # ab first, then ▁ before it
    assert tokenizer.encode("é").tolist() == [ids["▁"], ids["<0xC3>"], ids["<0xA9>"]]
    assert tokenizer.decode([ids["▁ab"], ids["▁a"]]) == "ab a"
    assert tokenizer.decode([ids["b"], ids["▁a"], 2]) == "b a"
    assert tokenizer.token_bytes[ids["▁ab"]] == b" ab"
    assert tokenizer.token_bytes[ids["<0xC3>"]] == b"\xc3"
    assert tokenizer.token_bytes[2] == b""
    for text in ("", " ", "  ab", "a\nb  é 日本", "</s>"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


# Files that are read well and still cannot cut every text


def with_a_short_map(settings: dict[str, Any]) -> str:
    """The library looks letters up in a table that ends before them, and panics."""
    short = base64.b64encode(struct.pack("<I", 512) + bytes(512)).decode()
    settings["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": short}
    return "café"


def without_unknown(settings: dict[str, Any]) -> str:
    """What is not in the vocabulary becomes a token that is not in it either."""
    model = settings["model"]
    names = [name for name in model["vocab"] if name != byte_level("é".encode())[0]]
    settings["model"] |= {"vocab": {name: id for id, name in enumerate(names)}, "merges": [], "unk_token": "<none>"}
    settings["added_tokens"][0]["id"] = len(names)
    return "café"


@pytest.mark.parametrize("spoil", [with_a_short_map, without_unknown])
def test_a_text_that_the_library_cannot_cut_is_refused_and_the_next_is_cut(spoil: Callable[[dict[str, Any]], str]):
    settings = json.loads(trained("bpe").json)
    bad = spoil(settings)
    tokenizer = Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(settings)))
    expected = tokenizer.encode("cafe").tolist()
    for cut in (
        lambda text: tokenizer.encode(text),
        lambda text: tokenizer.encode_documents(as_documents([text]))[:-1],
    ):
        with pytest.raises(UserError, match=r"the tokenizer cannot cut this text \(.+\)"):
            cut(bad)
        assert cut("cafe").tolist() == expected
