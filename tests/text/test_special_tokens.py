"""Special tokens: one rule for all kinds of tokenizers, in text that is read and in text that is written."""

from itertools import islice

import numpy as np
import pytest
import tokenizers
from tokenizers import models

import chainrule
from chainrule.errors import UserError
from chainrule.text.base import Tokenizer, byte_alphabet, byte_level_backend
from tests.interop.test_llama2c import LETTERS, NEWER, raw_pieces
from tests.interop.test_llama2c import read_tokenizer as read_llama2c_tokenizer
from tests.text.samples import as_documents, library, train, trained

END = "<|endoftext|>"
CHAT = "<|im_start|>user\nhi<|im_end|>\n"
KINDS = ["bytes", "characters", "words", "bpe", "closed words", "closed characters"]


@pytest.fixture(scope="module")
def chat() -> Tokenizer:
    """A byte-level tokenizer with three special tokens, as those of SmolLM2."""
    backend = byte_level_backend(models.BPE(vocab=byte_alphabet(), merges=[]))
    backend.add_special_tokens([END, "<|im_start|>", "<|im_end|>"])
    return Tokenizer(backend)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("llama") / "tok.bin"
    path.write_bytes(raw_pieces(b"<unk>", b"<s>", b"</s>", *NEWER, *(each.encode() for each in LETTERS)))
    return read_llama2c_tokenizer(path, 3 + 256 + len(LETTERS))


def test_special_tokens_are_left_out_or_written_by_name_whatever_the_tokenizer(chat: Tokenizer, llama: Tokenizer):
    for tokenizer in (chat, llama, *map(trained, KINDS)):
        special = list(tokenizer.special.values())
        text = tokenizer.encode("cat" if tokenizer is not llama else "ab").tolist()
        ids = [special[0], *text, special[-1], *text]
        shown = tokenizer.decode(ids, skip_special_tokens=False)
        assert shown == library(tokenizer).decode(ids, skip_special_tokens=False)
        assert shown.startswith(next(iter(tokenizer.special)))
        assert tokenizer.decode(ids) == tokenizer.decode(text + text) == library(tokenizer).decode(ids)
        for skip in (True, False):
            stream = tokenizer.stream(skip)
            assert "".join(map(stream.feed, ids)) + stream.flush() == tokenizer.decode(ids, skip)
        for name, id in tokenizer.special.items():
            assert tokenizer.token_text(id) == name
            assert tokenizer.token_bytes[id] == b""


def test_the_end_shows_by_its_own_name(chat: Tokenizer):
    assert chat.token_text(chat.eos) == END
    assert trained("bpe").token_text(trained("bpe").eos) == "<eos>"


def test_unknown_words_are_text(chat: Tokenizer):
    words = trained("closed words")
    assert words.decode(words.encode("the zebra")) == "the <unk>"


def test_names_in_text_are_tokens_only_where_that_is_asked_for(chat: Tokenizer):
    whole = tokenizers.Tokenizer.from_str(chat.json)  # the library reads them as tokens unless it is told otherwise
    assert chat.encode(CHAT, special_tokens=True).tolist() == whole.encode(CHAT, add_special_tokens=False).ids
    assert not set(chat.encode(CHAT).tolist()) & set(chat.special.values())
    for special_tokens in (True, False):
        assert chat.decode(chat.encode(CHAT, special_tokens), skip_special_tokens=False) == CHAT
    assert chat.decode(chat.encode(CHAT, special_tokens=True)) == "user\nhi\n"


def test_of_special_tokens_that_overlap_the_longest_is_taken():
    double = END + END
    tokenizer = train("bpe", ["a b"], special_tokens=(END, double))
    ids = {name: tokenizer.backend.token_to_id(name) for name in (END, double)}
    text = f"a{double}b{END}c{double}{END}"
    found = tokenizer.encode(text).tolist()
    assert [id for id in found if id in ids.values()] == [ids[double], ids[END], ids[double], ids[END]]
    assert tokenizer.decode(found) == text
    backend = byte_level_backend(models.BPE(vocab=byte_alphabet(), merges=[]))
    backend.add_special_tokens([END, double])
    elsewhere = Tokenizer(backend)
    found = elsewhere.encode(text, special_tokens=True).tolist()
    special = elsewhere.special
    assert [id for id in found if id in special.values()] == [
        special[double],
        special[END],
        special[double],
        special[END],
    ]


# Special tokens of a vocabulary of one's own


def test_byte_pairs_never_reach_into_or_across_special_tokens():
    text = "low low <|end|>low lower<|end|> newest<|end|><|end|>end|end|"
    tokenizer = train("bpe", [text] * 20, size=300, special_tokens=("<|end|>",))
    plain = train("bpe", ["low low ", "low lower", " newest", "", "end|end|"] * 20, size=299)
    merged = [tokenizer.token_bytes[id] for id in range(256, tokenizer.vocabulary_size - 2)]
    assert merged == [plain.token_bytes[id] for id in range(256, plain.vocabulary_size - 1)]
    assert tokenizer.token_bytes[-2:] == [b"<|end|>", b""]
    ids = tokenizer.encode(text).tolist()
    assert ids.count(tokenizer.vocabulary_size - 2) == text.count("<|end|>")
    assert tokenizer.decode(ids) == text
    assert tokenizer.encode_documents(as_documents([text])).tolist() == [*ids, tokenizer.eos]
    assert tokenizer.keeps_every_text


def test_a_run_learns_and_writes_its_special_tokens():
    lines = ["<|user|> hello <|bot|> hello to you"] * 30
    run = chainrule.train(
        chainrule.Texts(lines), tokenizer="bpe", special_tokens=["<|user|>", "<|bot|>"], order=3, vocabulary_size=300
    )
    bot = run.tokenizer.backend.token_to_id("<|bot|>")
    assert run.tokenizer.encode("hello <|bot|>")[-1] == bot
    assert run.sample("<|user|> hello", temperature=0) == lines[0]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"tokenizer": "words", "special_tokens": ["<|a|>"]}, "special tokens are for a new vocabulary of kind bpe"),
        ({"tokenizer": "bpe", "special_tokens": ["<eos>"]}, "a special token is a text of its own, and not '<eos>'"),
        ({"tokenizer": "bpe", "special_tokens": [""]}, "a special token is a text of its own, and not ''"),
        ({"tokenizer": "bpe", "special_tokens": ["é"]}, "'é' stands for a byte in a byte-pair vocabulary"),
        (
            {"tokenizer": "bpe", "special_tokens": ["<|a|>"], "vocabulary_size": 257},
            "needs at least 258 tokens, for 256 bytes, <eos> and 1 special tokens; got 257",
        ),
    ],
)
def test_special_tokens_that_cannot_be_are_refused(settings: dict, sentence: str):
    with pytest.raises(UserError, match=sentence):
        chainrule.train_tokenizer(chainrule.Texts(["a b"]), kind=settings["tokenizer"], **settings)


# A text that arrives in parts

STORY = (
    "  The cows eat  hay,\n\n\tand   corn. <|im_end|>They're 日本 naïve—ok ? \u00a0 x\r\n12,345 <eos> ab  \n a " * 40
)


def parts_of(text: str, seed: int) -> list[str]:
    places = np.sort(np.random.default_rng(seed).integers(0, len(text), 200)).tolist()
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


@pytest.mark.parametrize("special_tokens", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_text_in_parts_has_the_ids_of_the_whole(
    chat: Tokenizer, llama: Tokenizer, monkeypatch: pytest.MonkeyPatch, special_tokens: bool, seed: int
):
    monkeypatch.setattr("chainrule.text.incremental.cut_before_spaces.__defaults__", (50,))
    own = train("bpe", [STORY], size=300, special_tokens=("<|im_end|>",))
    for tokenizer in (chat, llama, own, *map(trained, KINDS)):
        found = list(tokenizer.encode_iterable(parts_of(STORY, seed), special_tokens))
        assert found == tokenizer.encode(STORY, special_tokens).tolist()


def test_a_long_text_is_read_as_its_ids_are_needed(chat: Tokenizer, llama: Tokenizer):
    for tokenizer in (chat, llama, *map(trained, KINDS)):
        taken = 0

        def lines():
            nonlocal taken
            for number in range(100_000):
                taken += 1
                yield f"line {number} of many\n"

        assert len(list(islice(tokenizer.encode_iterable(lines()), 10))) == 10
        assert taken < 5000


def test_where_tokens_reach_across_spaces_the_text_is_joined_first():
    vocabulary = byte_alphabet()
    vocabulary |= {"aĠ": 256, "aĠb": 257}
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[("a", "Ġ"), ("aĠ", "b")]))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.add_special_tokens(["<eos>"])
    tokenizer = Tokenizer(backend)
    text = "a b" * 20_000
    assert list(tokenizer.encode_iterable(parts_of(text, 0))) == [257] * 20_000
