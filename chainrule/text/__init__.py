"""Tokenizers, one file a kind: bytes, characters, words, bpe."""

KINDS = ("bytes", "characters", "words", "bpe")
