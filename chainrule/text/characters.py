"""One token per character of the text: ASCII as its byte, others of their own; unseen ones are spelled in bytes."""

from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from chainrule.text.base import (
    EVERY_CHARACTER,
    UNKNOWN,
    Tokenizer,
    Vocabulary,
    byte_alphabet,
    byte_level,
    byte_level_backend,
    end_with_eos,
)
from chainrule.text.pieces import CHARACTERS, DocumentBatch
from chainrule.text.words import count_pieces, most_frequent


def train(batches: Iterable[DocumentBatch], vocabulary: Vocabulary) -> Tokenizer:
    pieces, counts = count_pieces(batches, CHARACTERS)
    chosen = most_frequent(pieces, counts, vocabulary.min_count or 1, vocabulary.size)
    every_character = pre_tokenizers.Split(tokenizers.Regex(EVERY_CHARACTER), "isolated")
    if vocabulary.is_closed:
        known = {UNKNOWN: 0} | {piece.decode(): 1 + i for i, piece in enumerate(chosen)}
        backend = tokenizers.Tokenizer(models.WordLevel(vocab=known, unk_token=UNKNOWN))
        backend.pre_tokenizer = every_character
        backend.decoder = decoders.Fuse()
        return end_with_eos(backend)
    known = byte_alphabet()
    for piece in chosen:
        known.setdefault(byte_level(piece), len(known))
    return end_with_eos(byte_level_backend(models.BPE(vocab=known, merges=[], ignore_merges=True), every_character))
