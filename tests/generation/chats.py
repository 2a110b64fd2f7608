"""Tokenizers and models to talk to: their answers depend on every token of the conversation."""

from functools import cache

import numpy as np
import tokenizers

from chainrule.text.base import Tokenizer
from chainrule.text.chat import Chat
from tests.text.samples import LINES, train

from .toys import Total, random_table

START, END = "<|im_start|>", "<|im_end|>"


@cache
def chat_tokenizer() -> Tokenizer:
    """Of ChatML, with a system message of its own."""
    backend = tokenizers.Tokenizer.from_str(train("bpe", LINES).json)
    backend.add_special_tokens([START, END])
    found = Tokenizer(backend)
    found.chat = Chat("chatml", "Be brief.")
    return found


@cache
def plain_tokenizer() -> Tokenizer:
    """Of text that is no conversation."""
    return train("characters", [*LINES, "User: Assistant: system\n\n"])


def talkative(tokenizer: Tokenizer, ends_once_in: int = 8) -> Total:
    """What it says next depends on the sum of all tokens; the end of an answer comes about once in so many."""
    size = tokenizer.vocabulary_size
    table = random_table(size, seed=5)
    table[:, list(tokenizer.special.values())] = -np.inf  # no mark in an answer but its end
    ends = np.arange(size) % ends_once_in == 0
    for id in (tokenizer.answer_ends or (tokenizer.eos,))[:1]:
        table[ends, id] = 20.0
    return Total(table)
