"""Encoding a conversation as a prompt that the model continues with the assistant's answer."""

from collections.abc import Callable, Sequence

import numpy as np

from chainrule.generation.prompt import Prompt, PromptTooLong, heal, read_prompt
from chainrule.text.base import Tokenizer
from chainrule.text.chat import Chat, Message


def chat_of(tokenizer: Tokenizer) -> Chat:
    """The chat style of a tokenizer; for models trained on plain text, which know no roles, a transcript."""
    return tokenizer.chat or Chat()


def render_conversation(tokenizer: Tokenizer, messages: Sequence[Message], continues_last: bool = False) -> str:
    """The text of the prompt, with special tokens written as their names."""
    return "".join(piece.text for piece in chat_of(tokenizer).pieces(messages, continues_last))


def encode_conversation(
    model: object, tokenizer: Tokenizer, messages: Sequence[Message], continues_last: bool = False
) -> Prompt:
    """The ids of the prompt; a conversation that is longer than the model's context is refused.

    With `continues_last`, the last message is the beginning of the answer; a space at its end is healed.
    """
    chat = chat_of(tokenizer)
    text = render_conversation(tokenizer, messages, continues_last)
    if chat.written.is_plain:
        return read_prompt(model, tokenizer, text, truncate=False)
    ids = tokenizer.encode_pieces(chat.pieces(messages, continues_last)).astype(np.int64)
    reads = getattr(model, "context_length", None)
    if reads is not None and len(ids) > reads:
        raise PromptTooLong("the conversation", len(ids), reads)
    opening, allowed = heal(tokenizer, text, ids) if continues_last else ("", None)
    return Prompt(ids[: len(ids) - len(opening)], text, opening, allowed, ends=tokenizer.answer_ends)


class AnswerText:
    """The text of an answer as it is displayed, piece by piece; `shown` says how its beginning is (see Style.shown)."""

    def __init__(self, shown: Callable[[str], str]) -> None:
        self._shown, self._has_begun = shown, False

    def feed(self, text: str) -> str:
        displayed = text if self._has_begun else self._shown(text)
        self._has_begun |= bool(text)
        return displayed
