"""A small model whose every probability is in one table, and documents to measure it on."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.data.documents import Documents, cut
from chainrule.models.contract import LanguageModel
from chainrule.text import bytes as byte_tokenizer
from chainrule.text import characters, words
from chainrule.text.base import Tokenizer, Vocabulary

LINES = (
    "the cat sat on the mat",
    "é 中 the end 😀",
    "a",
    "the dog sat on the cat and the mat and the dog",
    "mat mat mat",
    "on and on and on",
)


class SumModel(LanguageModel):
    """The next token depends on the sum of all tokens since the last eos, so states and starts matter."""

    def __init__(self, log_probability: np.ndarray, eos: int) -> None:
        self.table = log_probability  # (rows, vocabulary)
        self.vocabulary_size, self.eos = log_probability.shape[1], eos

    def start(self, batch_size: int, condition: Any = None) -> np.ndarray:
        return np.zeros(batch_size, np.int64)

    def step(self, tokens: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sums = state[:, None] + np.cumsum(tokens, 1)  # (batch, time)
        before = np.maximum.accumulate(np.where(tokens == self.eos, sums - tokens, 0), 1)
        totals = sums - before
        return self.table[totals % len(self.table)], totals[:, -1]


class BigramModel(SumModel):
    """The next token depends on the last one."""

    def step(self, tokens: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.table[tokens], state


def random_model(tokenizer: Tokenizer, seed: int = 0) -> SumModel:
    table = np.random.default_rng(seed).normal(size=(31, tokenizer.vocabulary_size)) * 2
    return SumModel(table, tokenizer.eos)


def as_lines(lines: Sequence[str], path: str = "t") -> Documents:
    return cut(np.frombuffer("\n".join(lines).encode(), np.uint8), "line", path)


def tokenizer_of(name: str, lines: Sequence[str] = LINES) -> Tokenizer:
    if name == "bytes":
        return byte_tokenizer.train([], Vocabulary())
    train = words.train if name.endswith("words") else characters.train
    return train([as_lines(lines)], Vocabulary(is_closed=name.startswith("closed")))
