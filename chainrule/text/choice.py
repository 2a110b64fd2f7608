"""Which tokenizer a text gets: one that exists, or a new one of a kind, trained on the text."""

from collections.abc import Iterable
from pathlib import Path

from chainrule import registry
from chainrule.errors import UserError, did_you_mean
from chainrule.text import KINDS
from chainrule.text.base import Tokenizer, Vocabulary
from chainrule.text.pieces import DocumentBatch
from chainrule.text.settings import Tokenization as Tokenization

NO_KINDS = ("base", "chat", "choice", "incremental", "pieces", "rendering", "role_tokens", "settings", "stored")


def make_tokenizer(batches: Iterable[DocumentBatch], tokenization: Tokenization, default: str) -> Tokenizer:
    """The tokenizer that was asked for; `batches` of documents are read only if it has to be trained."""
    name = default if tokenization.tokenizer == "auto" else tokenization.tokenizer
    if tokenization.special_tokens and name != "bpe":
        raise UserError(f"special tokens are for a new vocabulary of kind bpe, and this one is {name}; leave them out")
    if name not in KINDS:
        return _existing_tokenizer(name)
    vocabulary = Vocabulary(
        tokenization.vocabulary_size,
        tokenization.min_count,
        tokenization.closed_vocabulary,
        tokenization.special_tokens,
    )
    module = registry.find("chainrule.text", name, "tokenizer", without=NO_KINDS)
    tokenizer: Tokenizer = module.train(batches, vocabulary)
    return tokenizer


def _existing_tokenizer(name: str) -> Tokenizer:
    from chainrule.text.bpe import load_gpt2

    path = Path(name)
    if (path / "tokenizer.json").is_file():
        return Tokenizer.load(path / "tokenizer.json")
    if (path / "encoder.json").is_file():
        return load_gpt2(path)
    if path.is_file():
        return Tokenizer.load(path)
    kinds = ", ".join(KINDS)
    raise UserError(
        f"unknown tokenizer '{name}'{did_you_mean(name, KINDS)} (give one of {kinds}, a tokenizer.json, or a run)"
    )
