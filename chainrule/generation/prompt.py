"""Encoding a prompt: the token that starts every document, where the model has one, then the prompt's own tokens.

A space at the end of a prompt belongs to the next word, since tokenizers put it into that word's token. So its token is
removed, and the first token that is drawn must begin with a space ("token healing"). A space before the first word is
left out where no document of the model begins so; tokenizers made elsewhere, characters and bytes keep it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from chainrule.errors import Argument, UserError

MOST_FOLLOWED = 8


class TextStream(Protocol):
    """An incremental decoder: text becomes available once the ids of a whole character have been fed."""

    def feed(self, token: int, /) -> str: ...

    def flush(self) -> str: ...


class Tokenizer(Protocol):
    """What generation needs of a tokenizer. Prompts are healed where it has `token_bytes`, too.

    Where it has `ignores_first_space`, that says whether a space before the first word is left out; where it has
    `adds_spaces`, whether words after other white space have a space in their token that is not in the text.
    """

    @property
    def eos(self) -> int: ...

    def encode(self, text: str, /) -> np.ndarray: ...

    def decode(self, ids: Iterable[int], /) -> str: ...

    def stream(self) -> TextStream: ...


class PromptTooLong(UserError):
    """A prompt that has more tokens than the model reads."""

    def __init__(self, what: str, tokens: int, context_length: int, remedy: Argument | None = None):
        super().__init__(f"{what} has {tokens} tokens but this model reads {context_length}; shorten it", remedy)
        self.tokens, self.context_length = tokens, context_length


@dataclass(frozen=True)
class Prompt:
    """An encoded prompt."""

    ids: np.ndarray  # what the model reads; where it is too long, its end
    text: str
    opening: str = ""  # the end of `text` whose token was removed (token healing)
    allowed: np.ndarray | None = None  # (vocabulary,) the tokens that begin with `opening`
    ends: tuple[int, ...] = ()  # tokens that end the continuation, besides the end token
    length: int = 0  # tokens of the text that are to be read, those that the model has no room for among them

    def continuation(self, tokenizer: Tokenizer, is_shown: bool = True) -> "Continuation":
        """`is_shown`: the continuation is shown after the whole `text`, not after the texts of the ids one by one."""
        stream = tokenizer.stream()
        if self.text and not (getattr(tokenizer, "joins_with_spaces", False) and self.text[-1].isspace()):
            follow(stream, self.ids[self.ids != tokenizer.eos], is_shown)
        return Continuation(stream, len(self.opening))


class Continuation:
    """Decodes the tokens that follow a prompt, without the first characters, which the prompt's own text ends with."""

    def __init__(self, stream: TextStream, hidden: int):
        self._stream = stream
        self._hidden = hidden

    def feed(self, token: int) -> str:
        return self._show(self._stream.feed(token))

    def flush(self) -> str:
        return self._show(self._stream.flush())

    @property
    def state(self) -> str:
        """What the text of the next token depends on, as `StreamDecoder.state` says."""
        return getattr(self._stream, "state", "later")

    def _show(self, text: str) -> str:
        shown, self._hidden = text[self._hidden :], max(0, self._hidden - len(text))
        return shown


def follow(stream: TextStream, ids: Sequence[int] | np.ndarray, is_shown: bool = True) -> None:
    """Let a decoder go on after some tokens, so that the next one is not decoded as the first of a text.

    A character, or white space before a word, is of few tokens: the last ones are enough. Where the text of all of them
    is shown, so is a space at its end that the decoder would hold back.
    """
    for id in ids[-MOST_FOLLOWED:]:
        stream.feed(int(id))
    if is_shown and hasattr(stream, "settle"):
        stream.settle()


def read_prompt(model: object, tokenizer: Tokenizer, text: str, truncate: bool, heals: bool = True) -> Prompt:
    """Encode a prompt. One that is too long for the model is refused or, with `truncate`, cut to its last tokens.

    `heals=False` keeps spaces at both ends, for callers that want the log-probabilities of all tokens.
    """
    read = _without_first_space(tokenizer, text) if heals else text
    encoded = np.asarray(tokenizer.encode(read), dtype=np.int64)
    reads = getattr(model, "context_length", None)
    if reads is not None and len(encoded) > reads and not truncate:
        raise PromptTooLong("the prompt", len(encoded), reads, remedy=Argument("truncate"))
    opening, allowed = heal(tokenizer, read, encoded) if heals else ("", None)
    start: int | None = getattr(tokenizer, "start", tokenizer.eos)
    ids = encoded[: len(encoded) - bool(opening)]
    length = len(ids)
    if start is not None or not len(ids):
        ids = np.concatenate([np.array([tokenizer.eos if start is None else start], np.int64), ids])
    return Prompt(ids if reads is None else ids[-reads:], text, opening, allowed, length=length)


def _without_first_space(tokenizer: Tokenizer, text: str) -> str:
    """' The sea' -> 'The sea', where the tokenizer takes them for the same; other white space is kept."""
    is_single = text[:1] == " " and not text[1:2].isspace()
    return text[1:] if is_single and getattr(tokenizer, "ignores_first_space", False) else text


def heal(tokenizer: Tokenizer, text: str, ids: np.ndarray) -> tuple[str, np.ndarray | None]:
    """The text of a last token that is a single space, and the tokens that begin with it; else nothing."""
    spelled: list[bytes] | None = getattr(tokenizer, "token_bytes", None)
    if spelled is None or not len(ids) or spelled[int(ids[-1])] != b" ":
        return "", None
    if getattr(tokenizer, "adds_spaces", False) and (not text[:-1] or text[-2].isspace()):
        return "", None  # the space is part of longer white space, after which a word's own is not in the text
    allowed = np.array([each.startswith(b" ") for each in spelled])
    return (" ", allowed) if allowed.sum() > 1 else ("", None)
