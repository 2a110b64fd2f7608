"""Encoding a prompt: the token that starts every document, where the model has one, then the prompt's own tokens.

A space at the end of a prompt belongs to the next word, since tokenizers put it into that word's token. So its token is
removed, and the first token that is drawn must begin with a space ("token healing").
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from chainrule.errors import Argument, UserError


class TextStream(Protocol):
    """An incremental decoder: text becomes available once the ids of a whole character have been fed."""

    def feed(self, token: int, /) -> str: ...

    def flush(self) -> str: ...


class Tokenizer(Protocol):
    """What generation needs of a tokenizer. Prompts are healed where it has `token_bytes`, too."""

    @property
    def eos(self) -> int: ...

    def encode(self, text: str, /) -> np.ndarray: ...

    def decode(self, ids: Iterable[int], /) -> str: ...

    def stream(self) -> TextStream: ...


@dataclass(frozen=True)
class Prompt:
    """An encoded prompt."""

    ids: np.ndarray  # what the model reads
    text: str
    opening: str = ""  # the end of `text` whose token was removed (token healing)
    allowed: np.ndarray | None = None  # (vocabulary,) the tokens that begin with `opening`
    ends: tuple[int, ...] = ()  # tokens that end the continuation, besides the end token

    def continuation(self, tokenizer: Tokenizer) -> "Continuation":
        return Continuation(tokenizer.stream(), self, getattr(tokenizer, "joins_with_spaces", False))


class Continuation:
    """Decodes the tokens that follow a prompt, without the `opening` that the prompt's own text ends with."""

    def __init__(self, stream: TextStream, prompt: Prompt, is_joined: bool):
        """`is_joined`: the tokenizer puts spaces between tokens, so that no token contains one."""
        self._stream = stream
        self._hidden = len(prompt.opening)
        if prompt.text and not (is_joined and prompt.text[-1].isspace()):
            stream.feed(int(prompt.ids[-1]))  # so that the next token is not decoded as the first of a text

    def feed(self, token: int) -> str:
        return self._show(self._stream.feed(token))

    def flush(self) -> str:
        return self._show(self._stream.flush())

    def _show(self, text: str) -> str:
        shown, self._hidden = text[self._hidden :], max(0, self._hidden - len(text))
        return shown


def read_prompt(model: object, tokenizer: Tokenizer, text: str, truncate: bool, heals: bool = True) -> Prompt:
    """Encode a prompt. One that is too long for the model is refused or, with `truncate`, cut to its last tokens.

    `heals=False` keeps a last token that is a space, for callers that want the log-probabilities of all tokens.
    """
    encoded = np.asarray(tokenizer.encode(text), dtype=np.int64)
    reads = getattr(model, "context_length", None)
    if reads is not None and len(encoded) > reads and not truncate:
        found = f"the prompt has {len(encoded)} tokens but this model reads {reads}"
        raise UserError(f"{found}; shorten it", remedy=Argument("truncate"))
    opening, allowed = _heal(tokenizer, encoded) if heals else ("", None)
    start: int | None = getattr(tokenizer, "start", tokenizer.eos)
    ids = encoded[: len(encoded) - bool(opening)]
    if start is not None or not len(ids):
        ids = np.concatenate([np.array([tokenizer.eos if start is None else start], np.int64), ids])
    return Prompt(ids if reads is None else ids[-reads:], text, opening, allowed)


def _heal(tokenizer: Tokenizer, ids: np.ndarray) -> tuple[str, np.ndarray | None]:
    """The text of a last token that is a single space, and the tokens that begin with it; else nothing."""
    spelled: list[bytes] | None = getattr(tokenizer, "token_bytes", None)
    if spelled is None or not len(ids) or spelled[int(ids[-1])] != b" ":
        return "", None
    allowed = np.array([each.startswith(b" ") for each in spelled])
    return (" ", allowed) if allowed.sum() > 1 else ("", None)
