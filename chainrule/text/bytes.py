"""256 tokens, one for each byte: nothing to learn, nothing ever unknown."""

from collections.abc import Iterable

import tokenizers
from tokenizers import models, pre_tokenizers

from chainrule.errors import UserError
from chainrule.text.base import EVERY_CHARACTER, Tokenizer, Vocabulary, byte_alphabet, byte_level_backend, end_with_eos
from chainrule.text.pieces import DocumentBatch


def train(batches: Iterable[DocumentBatch], vocabulary: Vocabulary) -> Tokenizer:
    if vocabulary.is_closed:
        raise UserError("a vocabulary of bytes is always complete; leave out closed_vocabulary")
    every_character = pre_tokenizers.Split(tokenizers.Regex(EVERY_CHARACTER), "isolated")
    return end_with_eos(byte_level_backend(models.BPE(vocab=byte_alphabet(), merges=[]), every_character))
