"""What every token adds to a text, as a table: with some tokenizers that depends on what came before it.

A tokenizer is a finite-state transducer from ids to bytes, and `StreamDecoder` runs it; here it is written out, for
programs that need the text of all tokens at once, such as the masks of constrained output.
"""

from dataclasses import dataclass

import numpy as np

from chainrule.text.base import Tokenizer
from chainrule.text.pieces import ADDED_SPACE, WHITE_SPACE

STATES = ("later", "first", "space", "held", "opening")
LATER, FIRST, SPACE, HELD, OPENING = range(len(STATES))
NONE = -1  # the text of a token that no text may contain here


@dataclass(frozen=True)
class Spelling:
    """`texts` are the different texts, sorted; the first one is empty.

    In a state, a token adds the text numbered by `texts_of`, and `following` is the state after it. States are those of
    `StreamDecoder`, and one more, "opening": the token begins with a space that is already there, so it adds the rest.
    After a token that leads to "held", a space is not yet added; with it, its text is that of `held_texts_of`.
    """

    texts: list[bytes]
    texts_of: np.ndarray  # (states, vocabulary)
    following: np.ndarray  # (states, vocabulary)
    held_texts_of: np.ndarray  # (states, vocabulary); as `texts_of` where no space is held back


def spell_tokens(tokenizer: Tokenizer) -> Spelling:
    """The table of a tokenizer; special tokens have no text."""
    special = {tokenizer.eos, *tokenizer.special.values()}
    raw = [b"" if id in special else spelled for id, spelled in enumerate(tokenizer.token_bytes)]
    steps = [[_step(tokenizer, state, each) for each in raw] for state in range(OPENING)]
    steps.append([_without_space(*each) for each in steps[LATER]])
    spaces = [[text + b" " if text is not None and state == HELD else text for text, state in row] for row in steps]
    texts = sorted({b"", b" ", *(text for row in spaces for text in row if text is not None)} | _texts(steps))
    places: dict[bytes | None, int] = {text: place for place, text in enumerate(texts)}
    places[None] = NONE
    return Spelling(
        texts,
        np.array([[places[text] for text, _ in row] for row in steps], np.int32),
        np.array([[state for _, state in row] for row in steps], np.int8),
        np.array([[places[text] for text in row] for row in spaces], np.int32),
    )


def _texts(steps: list[list[tuple[bytes | None, int]]]) -> set[bytes]:
    return {text for row in steps for text, _ in row if text is not None}


def _step(tokenizer: Tokenizer, state: int, raw: bytes) -> tuple[bytes | None, int]:
    """What a token adds in a state, and the state after it."""
    if not raw:
        return None, state
    if tokenizer.adds_spaces:
        return _without_added(state, raw)
    if tokenizer.joins_with_spaces and state != FIRST:
        return b" " + raw, LATER
    if tokenizer.marks_spaces and state == FIRST:
        return raw.removeprefix(b" "), LATER
    return raw, LATER


def _without_added(state: int, raw: bytes) -> tuple[bytes, int]:
    """The same where a space is added before words: as `StreamDecoder` takes it away, in bytes.

    A character that is spelled in several tokens counts as none of white space, even if it is one, such as U+3000.
    """
    text = raw.decode("utf-8", "surrogateescape")
    text = {LATER: "x", HELD: "\n "}.get(state, "\n") + (text.removeprefix(" ") if state == FIRST else text)
    is_held = text[-1] == " " and text[-2] in WHITE_SPACE
    shown = text[:-1] if is_held else text
    following = HELD if is_held else SPACE if shown[-1] in WHITE_SPACE else LATER
    return ADDED_SPACE.sub("", shown)[1:].encode("utf-8", "surrogateescape"), following


def _without_space(text: bytes | None, following: int) -> tuple[bytes | None, int]:
    return (text[1:], following) if text is not None and text.startswith(b" ") else (None, LATER)
