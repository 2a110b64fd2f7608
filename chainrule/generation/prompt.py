"""What a prompt becomes: the token that starts every document, if any, then the prompt's own tokens.

A space at the end of a prompt belongs to the word that is to come: tokenizers write it into the next token. So it is
taken back, and the first token must begin with it ("token healing").
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from chainrule.errors import UserError


class TextStream(Protocol):
    """Turns ids into text one at a time; a character may need several."""

    def feed(self, token: int, /) -> str: ...

    def flush(self) -> str: ...


class Tokenizer(Protocol):
    """What generation needs of a tokenizer; one that tells its `token_bytes` has prompts healed."""

    @property
    def eos(self) -> int: ...

    def encode(self, text: str, /) -> np.ndarray: ...

    def decode(self, ids: Any, /) -> str: ...

    def stream(self) -> TextStream: ...


@dataclass(frozen=True)
class Prompt:
    ids: np.ndarray  # what the model reads
    text: str
    opening: str = ""  # what was taken back from the prompt's end
    allowed: np.ndarray | None = None  # (vocabulary,) the tokens that begin with it
    ends: tuple[int, ...] = ()  # tokens that end what comes, beside the end token

    def continuation(self, tokenizer: Tokenizer) -> "Continuation":
        return Continuation(tokenizer.stream(), self, getattr(tokenizer, "joins_with_spaces", False))


class Continuation:
    """The text of tokens that come after a prompt, without the opening that the prompt has shown already."""

    def __init__(self, stream: TextStream, prompt: Prompt, is_joined: bool):
        """`is_joined`: spaces stand between tokens and in none of them."""
        self._stream = stream
        self._hidden = len(prompt.opening)
        if prompt.text and not (is_joined and prompt.text[-1].isspace()):
            stream.feed(int(prompt.ids[-1]))  # what comes must know that it is not the first

    def feed(self, token: int) -> str:
        return self._show(self._stream.feed(token))

    def flush(self) -> str:
        return self._show(self._stream.flush())

    def _show(self, text: str) -> str:
        shown, self._hidden = text[self._hidden :], max(0, self._hidden - len(text))
        return shown


def read_prompt(model: Any, tokenizer: Tokenizer, text: str, truncate: bool, heals: bool = True) -> Prompt:
    """The ids to feed; of a prompt too long for the model, the last ones where `truncate` allows it.

    Whoever wants to know how likely the prompt's own tokens are has none of them taken back: `heals` is False.
    """
    encoded = np.asarray(tokenizer.encode(text), dtype=np.int64)
    reads = getattr(model, "context_length", None)
    if reads is not None and len(encoded) > reads and not truncate:
        found = f"the prompt has {len(encoded)} tokens but this model reads {reads}"
        raise UserError(f"{found}; shorten it or pass --truncate")
    opening, allowed = _take_back(tokenizer, encoded) if heals else ("", None)
    start: int | None = getattr(tokenizer, "start", tokenizer.eos)
    ids = encoded[: len(encoded) - bool(opening)]
    if start is not None or not len(ids):
        ids = np.concatenate([np.array([tokenizer.eos if start is None else start], np.int64), ids])
    return Prompt(ids if reads is None else ids[-reads:], text, opening, allowed)


def _take_back(tokenizer: Tokenizer, ids: np.ndarray) -> tuple[str, np.ndarray | None]:
    """A last token that is nothing but a space, and the longer tokens that begin with it, where there are any."""
    spelled: list[bytes] | None = getattr(tokenizer, "token_bytes", None)
    if spelled is None or not len(ids) or spelled[int(ids[-1])] != b" ":
        return "", None
    allowed = np.array([each.startswith(b" ") for each in spelled])
    return (" ", allowed) if allowed.sum() > 1 else ("", None)
