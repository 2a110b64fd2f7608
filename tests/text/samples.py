"""Texts that break tokenizers, small tokenizers of every kind, and the library's own path as the reference."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import tokenizers
from hypothesis import settings
from hypothesis import strategies as st

from chainrule import registry
from chainrule.data.documents import Documents
from chainrule.text.base import Tokenizer, Vocabulary, add_spaces, byte_alphabet
from chainrule.text.bpe import load_gpt2
from tests.shared_data import FOLDER

SEEDED = settings(deadline=None, derandomize=True, max_examples=60)
OPEN = ("bytes", "characters", "words", "bpe")
CLOSED = ("closed characters", "closed words")
LINES = (
    "the cat sat on the mat, and the dog's bone wasn't there",
    "the naïve café sells 3 crêpes for 12.50 € – the crêpes were fine",
    "日本語のテキスト と English text, 日本語の本",
    "😀 the 👍🏽 family 👨‍👩‍👧 said: 😀 hello\tworld  and\r\nmore",
    "Привет, мир! the world is мир",
    "if x <unk> y: <unk> print(2024, '<', 2025)",
)
SPECIAL = ("<eos>", "<unk>", "<|endoftext|>", "</s>", "<|im_end|>")
TRICKY = (
    *SPECIAL, "\r", "\r\n", "\u2028", "\u0085", "\u00a0", "\u3000", "\x1c", "\x00", "\x7f", "\ufeff", "\ufffd",
    "\u200d", "e\u0301", "\u0301", "😀", "👍🏽", "𝟘", "𐍈", "\U0010ffff", "\ue000", "\u0378", "\u0378a", "²", "½",
    "١", "Ⅷ", "_", "'s", "'ll", "'LL", "'", "''ve", " '", "  ", " \n", "\t x", "中", "ß", "Ġ", "Ċ", "the", " the",
    "1", " 1", "!", " !", "▁", "▁the", "\n", "\n ", " ", "   ", "\t", "\n\n", "\x0b",
)  # fmt: skip

any_text = st.lists(st.one_of(st.sampled_from(TRICKY), st.text(max_size=6)), max_size=12).map("".join)
# Unassigned characters send a whole batch down the library's own path, so most of the time there are none.
assigned_text = st.lists(
    st.one_of(
        st.sampled_from([each for each in TRICKY if "\u0378" not in each]),
        st.text(st.characters(exclude_categories=["Cs", "Cn"]), max_size=6),
    ).filter(lambda text: "\U0010ffff" not in text),
    max_size=12,
).map("".join)
batches_of_texts = st.lists(st.lists(st.one_of(assigned_text, assigned_text, any_text), max_size=4), max_size=3)


def as_documents(texts: Sequence[str], separator: bytes = b"\n", path: str = "t") -> Documents:
    """Any texts, empty ones and those with line ends too, as one batch."""
    encoded = [text.encode() for text in texts]
    sizes = np.array([len(each) for each in encoded], np.int64)
    starts = np.cumsum(sizes + len(separator)) - sizes - len(separator)
    buffer = np.frombuffer(separator.join(encoded), np.uint8)
    return Documents(buffer, starts, starts + sizes, np.arange(1, len(texts) + 1), path, len(separator))


def train(name: str, texts: Sequence[str], **vocabulary: int) -> Tokenizer:
    """'words' or 'closed words', learned from texts."""
    kind = name.removeprefix("closed ")
    module = registry.find("chainrule.text", kind, "tokenizer", without=("base", "pieces"))
    return module.train([as_documents(texts)], Vocabulary(**vocabulary, is_closed=name != kind))


@cache
def trained(name: str) -> Tokenizer:
    """One of every kind, learned from the same few lines; 'gpt2' is the original."""
    return load_gpt2(FOLDER / "gpt2-bpe") if name == "gpt2" else train(name, LINES)


@cache
def library(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """The same tokenizer as the library alone reads it."""
    backend = tokenizers.Tokenizer.from_str(tokenizer.json)
    backend.encode_special_tokens = True
    return backend


def library_ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[int]:
    """The tokens of all texts, <eos> after each, without any code of ours."""
    encode = library(tokenizer).encode
    return [id for text in texts for id in (*encode(text, add_special_tokens=False).ids, tokenizer.eos)]


@cache
def _spaced() -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    add_spaces(backend)
    return backend


def library_words(text: str) -> list[str]:
    """The words of a text with their spaces, those that are added too, as the library alone cuts them."""
    alphabet, backend = byte_alphabet(), _spaced()
    pieces = backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str(text))
    return [bytes(alphabet[symbol] for symbol in piece).decode() for piece, _ in pieces]
