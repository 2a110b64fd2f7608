"""Parts whose every probability is in a table, and texts that they have read."""

import numpy as np

from chainrule.analysis.mix.text import ScoredText, read_text
from chainrule.data.documents import cut
from chainrule.models.mix import Config, Model
from chainrule.text.base import Tokenizer
from tests.evaluation.toys import LINES, BigramModel, tokenizer_of

TOKENIZER = tokenizer_of("words")


def bigram(seed: int, tokenizer: Tokenizer = TOKENIZER) -> BigramModel:
    size = tokenizer.vocabulary_size
    weights = np.random.default_rng(seed).gamma(0.3, size=(size, size)) + 0.001
    return BigramModel(np.log(weights / weights.sum(1, keepdims=True)), tokenizer.eos)


def bigrams(*seeds: int) -> Model:
    return Model(Config(), [bigram(seed) for seed in seeds], [f"runs/{seed}" for seed in seeds])


def text_of(model: Model, lines: tuple[str, ...] = LINES, tokenizer: Tokenizer = TOKENIZER) -> ScoredText:
    documents = cut(np.frombuffer("\n".join(lines).encode(), np.uint8), "line", "t")
    halves = [documents.select(np.arange(len(documents)) < 2), documents.select(np.arange(len(documents)) >= 2)]
    return read_text(model, tokenizer, halves)
