"""Byte-pair encoding (BPE; Sennrich et al., 2016) on bytes, as in GPT-2: merges make one token of frequent pairs.

The merges are learned by Hugging Face's trainer and stored, in the order in which they apply, in `tokenizer.json`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tokenizers import AddedToken, models, pre_tokenizers, trainers

from chainrule.errors import UserError
from chainrule.text.base import (
    EOS,
    Tokenizer,
    Vocabulary,
    byte_level,
    byte_level_backend,
    end_with_eos,
    library_errors,
)
from chainrule.text.pieces import DocumentBatch

MOST_TEXT = 64 << 20  # merges of a large corpus are learned from this much of it
BYTES_PER_TOKEN = 128  # the vocabulary grows with the text until it has MOST_TOKENS
FEWEST_TOKENS, MOST_TOKENS = 512, 16_384


def train(batches: Iterable[DocumentBatch], vocabulary: Vocabulary) -> Tokenizer:
    if vocabulary.is_closed:
        raise UserError(
            "byte-pair encoding can spell every text; leave out closed_vocabulary, or use the tokenizer words"
        )
    special = check_special_tokens(vocabulary.special_tokens)
    texts = list(_texts(batches, special))
    size = vocabulary.size or default_size(sum(map(len, texts)))
    fewest = 257 + len(special)
    if size < fewest:
        held = "256 bytes and <eos>" if not special else f"256 bytes, <eos> and {len(special)} special tokens"
        raise UserError(f"a byte-pair vocabulary needs at least {fewest} tokens, for {held}; got {size}")
    backend = byte_level_backend(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=size - 1 - len(special),
        min_frequency=vocabulary.min_count or 2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    known = backend.get_vocab()
    for name in special:
        if name in known and byte_level(name.encode()) != name:
            raise UserError(f"'{name}' stands for a byte in a byte-pair vocabulary; choose another special token")
    backend.add_tokens([AddedToken(name, normalized=False) for name in special])
    return end_with_eos(backend)


def check_special_tokens(names: Sequence[str]) -> list[str]:
    """The names without repetitions, the longest first; refuses nothing at all, and the name that is ours."""
    for name in names:
        if name in ("", EOS):
            raise UserError(f"a special token is a text of its own, and not {name!r}; choose another")
    return sorted(dict.fromkeys(names), key=len, reverse=True)


def default_size(text_bytes: int) -> int:
    return max(FEWEST_TOKENS, min(MOST_TOKENS, 1 << (text_bytes // BYTES_PER_TOKEN).bit_length()))


def _texts(batches: Iterable[DocumentBatch], special: Sequence[str]) -> Iterator[str]:
    """The documents without special tokens: what is before one and what is after it are texts of their own."""
    names = re.compile("|".join(map(re.escape, special))) if special else None
    taken = 0
    for documents in batches:
        for start, end in zip(documents.starts, documents.ends, strict=True):
            text = documents.buffer[start:end].tobytes().decode()
            yield from names.split(text) if names else [text]
            taken += int(end - start)
            if taken >= MOST_TEXT:
                return


def load_gpt2(folder: Path, vocabulary: str = "encoder.json", merging: str = "vocab.bpe") -> Tokenizer:
    """GPT-2's own two files from a folder."""
    with library_errors(f"'{folder}' does not hold GPT-2's {vocabulary} and {merging}"):
        known = json.loads((folder / vocabulary).read_text(encoding="utf-8"))
        lines = (folder / merging).read_text(encoding="utf-8").split("\n")
        merges = [(left, right) for left, right in (line.split(" ") for line in lines[1:] if line)]
        backend = byte_level_backend(models.BPE(vocab=known, merges=merges))
        backend.add_special_tokens(["<|endoftext|>"])
        return Tokenizer(backend)
