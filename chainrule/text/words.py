"""One token per word, cut by GPT-2's pattern with the space before it; rare and unseen words are spelled in bytes.

A word is the same token wherever it stands: at the beginning of a document, and after white space other than a single
space, a space is added to it, which decoding takes away. What is glued to the word before it ("," in "hay, corn") has
no space and is another token; white space other than single spaces between words is tokens of its own.

Closed: words are what stands between white space, and all others are <unk>, as in the Penn Treebank's test.
"""

from collections.abc import Iterable

import numpy as np
import tokenizers
from tokenizers import models, pre_tokenizers

from chainrule.text.base import (
    EOS,
    UNKNOWN,
    Tokenizer,
    Vocabulary,
    add_spaces,
    byte_alphabet,
    byte_level,
    byte_level_backend,
    end_with_eos,
)
from chainrule.text.pieces import WHITESPACE, WORDS, DocumentBatch, PieceTable

MOST_WORDS = 50_000


def count_pieces(batches: Iterable[DocumentBatch], mode: int) -> tuple[list[bytes], np.ndarray]:
    """The different pieces of a text in the order they first occur, and how often each does."""
    table = PieceTable(mode)
    counts = np.zeros(0, np.int64)
    for documents in batches:
        found = np.bincount(table.cut(documents), minlength=table.size)
        found[: len(counts)] += counts
        counts = found
    return table.pieces(), counts[1:]


def most_frequent(pieces: list[bytes], counts: np.ndarray, min_count: int, most: int | None) -> list[bytes]:
    """Pieces seen at least min_count times, most frequent first (ties in order of occurrence), `most` of them."""
    by_count = np.argsort(-counts, kind="stable")[:most]
    return [pieces[i] for i in by_count[counts[by_count] >= min_count]]


def train(batches: Iterable[DocumentBatch], vocabulary: Vocabulary) -> Tokenizer:
    if vocabulary.is_closed:
        return _train_closed(batches, vocabulary)
    pieces, counts = count_pieces(batches, WORDS)
    # A word seen once is spelled out, so that the model learns how unknown words are spelled.
    chosen = most_frequent(pieces, counts, vocabulary.min_count or 2, vocabulary.size or MOST_WORDS)
    known = byte_alphabet()
    for word in chosen:
        known.setdefault(byte_level(word), len(known))
    backend = byte_level_backend(models.BPE(vocab=known, merges=[], ignore_merges=True))
    add_spaces(backend)
    return end_with_eos(backend)


def _train_closed(batches: Iterable[DocumentBatch], vocabulary: Vocabulary) -> Tokenizer:
    pieces, counts = count_pieces(batches, WHITESPACE)
    known = {UNKNOWN: 0}
    for word in most_frequent(pieces, counts, vocabulary.min_count or 1, vocabulary.size):
        if word != EOS.encode():  # written out in a text, it is a word like any other, and an unknown one
            known.setdefault(word.decode(), len(known))
    backend = tokenizers.Tokenizer(models.WordLevel(vocab=known, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return end_with_eos(backend)
