"""What a prompt becomes: the boundary token that starts every document, then the prompt's own tokens."""

from typing import Any, Protocol

import numpy as np

from chainrule.errors import UserError


class TextStream(Protocol):
    """Turns ids into text one at a time; a character may need several."""

    def feed(self, token: int, /) -> str: ...

    def flush(self) -> str: ...


class Tokenizer(Protocol):
    """What generation needs of a tokenizer."""

    @property
    def eos(self) -> int: ...

    def encode(self, text: str, /) -> np.ndarray: ...

    def decode(self, ids: Any, /) -> str: ...

    def stream(self) -> TextStream: ...


def prompt_ids(model: Any, tokenizer: Tokenizer, prompt: str, truncate: bool) -> np.ndarray:
    """The ids to feed; of a prompt too long for the model, the last ones where `truncate` allows it."""
    encoded = np.asarray(tokenizer.encode(prompt), dtype=np.int64)
    ids = np.concatenate([np.array([tokenizer.eos], np.int64), encoded])
    reads = getattr(model, "context_length", None)
    if reads is None:
        return ids
    if len(encoded) > reads and not truncate:
        found = f"the prompt has {len(encoded)} tokens but this model reads {reads}"
        raise UserError(f"{found}; shorten it or pass --truncate")
    return ids[-reads:]
