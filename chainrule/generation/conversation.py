"""A conversation as a prompt: what comes is the assistant's answer."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.errors import UserError
from chainrule.generation.prompt import Prompt, read_prompt
from chainrule.text.base import Tokenizer
from chainrule.text.chat import Chat, Message


def chat_of(tokenizer: Tokenizer) -> Chat:
    """Models trained on plain text know no roles: they get a transcript, and its texts that stop the answer."""
    return tokenizer.chat or Chat()


def write_conversation(tokenizer: Tokenizer, messages: Sequence[Message]) -> str:
    """As a person would read it; special tokens are in it by their names."""
    return "".join(piece.text for piece in chat_of(tokenizer).pieces(messages))


def read_conversation(model: Any, tokenizer: Tokenizer, messages: Sequence[Message]) -> Prompt:
    chat = chat_of(tokenizer)
    text = write_conversation(tokenizer, messages)
    if chat.written.is_plain:
        return read_prompt(model, tokenizer, text, truncate=False)
    ids = tokenizer.encode_pieces(chat.pieces(messages)).astype(np.int64)
    reads = getattr(model, "context_length", None)
    if reads is not None and len(ids) > reads:
        raise UserError(f"the conversation has {len(ids)} tokens but this model reads {reads}; shorten it")
    return Prompt(ids, text, ends=tokenizer.answer_ends)
