"""256 tokens, one for each byte: nothing to learn, nothing ever unknown."""

from collections.abc import Iterable

from chainrule.errors import UserError
from chainrule.text.base import Tokenizer, Vocabulary, bytes_backend, end_with_eos
from chainrule.text.pieces import DocumentBatch


def train(batches: Iterable[DocumentBatch], vocabulary: Vocabulary) -> Tokenizer:
    if vocabulary.is_closed:
        raise UserError("a vocabulary of bytes is always complete; leave out closed_vocabulary")
    return end_with_eos(bytes_backend())
