"""A conversation as the tokens that a model reads, and which of them it is asked for: what the assistant says.

Before every answer stand the very tokens of the prompt that a model gets for it, and with its first token begins what
is asked for, up to the token that ends it. Where one row of tokens cannot hold that for two answers, as where a style
moves what the system says to the last question, the second answer gets a row of its own, whose beginning is only read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from chainrule.checks import require_choice
from chainrule.text.base import Tokenizer
from chainrule.text.chat import Chat, Message, Piece, Style

Known = dict[str, list[int]]  # the ids of texts between special tokens
LEARN_FROM = ("assistant", "last", "all")  # every answer, the last one, or every token


@dataclass(frozen=True)
class Rendered:
    """Tokens, and which of them are asked for; never the first one, before which there is nothing."""

    ids: np.ndarray  # int64
    is_asked: np.ndarray  # bool
    answer_bytes: int  # of the answers that begin to be asked for here, and one for the end of each

    @property
    def asked(self) -> int:
        return int(self.is_asked.sum())


def render(tokenizer: Tokenizer, messages: Sequence[Message], learn_from: str = "assistant") -> list[Rendered]:
    """The rows of a conversation, nearly always one; what is said after the last answer is left out."""
    require_choice("learn_from", learn_from, LEARN_FROM)
    answers = [place for place, message in enumerate(messages) if message.role == "assistant"]
    rows: list[_Row] = []
    known: Known = {}
    for place in answers[-1:] if learn_from == "last" else answers:
        prompt = encode_prompt(tokenizer, messages[:place], known)
        if not rows or not _begins(prompt, rows[-1].ids):
            rows.append(_Row())
        rows[-1].append(prompt, _encode_answer(tokenizer, messages[:place], messages[place], prompt, known))
        rows[-1].answer_bytes += len(_style(tokenizer).said(messages[place]).encode()) + 1
    made = [row.made() for row in rows]
    return _ask_for_all(made) if learn_from == "all" else made


def encode_prompt(tokenizer: Tokenizer, messages: Sequence[Message], known: Known | None = None) -> np.ndarray:
    """The conversation up to where the assistant speaks, as `encode_conversation` gives it to a model."""
    return _encode(tokenizer, (tokenizer.chat or Chat()).pieces(messages), known)


class _Row:
    def __init__(self) -> None:
        self.ids = np.zeros(0, np.int64)
        self.answer_bytes = 0
        self._asked: list[range] = []

    def append(self, prompt: np.ndarray, answer: np.ndarray) -> None:
        """`prompt` begins with the tokens that are here already."""
        self.ids = np.concatenate([prompt, answer])
        self._asked.append(range(len(prompt), len(self.ids)))

    def made(self) -> Rendered:
        is_asked = np.zeros(len(self.ids), bool)
        for places in self._asked:
            is_asked[places.start : places.stop] = True
        return Rendered(self.ids, is_asked, self.answer_bytes)


def _ask_for_all(rows: list[Rendered]) -> list[Rendered]:
    """Every token once: of a row that begins as the one before it, what is new."""
    found: list[Rendered] = []
    before = np.zeros(1, np.int64)  # nothing stands before the first token
    for row in rows:
        is_asked = np.ones(len(row.ids), bool)
        is_asked[: max(_length_in_common(before, row.ids), 1)] = False
        found.append(Rendered(row.ids, is_asked, row.answer_bytes))
        before = row.ids
    return found


def _style(tokenizer: Tokenizer) -> Style:
    return (tokenizer.chat or Chat()).written


def _encode(tokenizer: Tokenizer, pieces: Iterable[Piece], known: Known | None) -> np.ndarray:
    """Of a plain transcript, as any text: after the token that texts begin with."""
    if not _style(tokenizer).is_plain:
        return tokenizer.encode_pieces(pieces, known).astype(np.int64)
    ids = tokenizer.encode("".join(piece.text for piece in pieces)).astype(np.int64)
    return ids if tokenizer.start is None else np.concatenate([[tokenizer.start], ids])


def _encode_answer(
    tokenizer: Tokenizer, before: Sequence[Message], answer: Message, prompt: np.ndarray, known: Known
) -> np.ndarray:
    """The tokens of an answer that come after its prompt, up to the one that ends it."""
    style = _style(tokenizer)
    said = [Piece(style.assistant.before, True), Piece(style.said(answer), False)]
    end = _up_to_end(tokenizer, style)
    ends = [] if end else [tokenizer.eos]
    whole = _encode(tokenizer, [*(tokenizer.chat or Chat()).turns(before), *said, Piece(end, True)], known)
    if _begins(whole, prompt):
        return np.concatenate([whole[len(prompt) :], ends]).astype(np.int64)
    alone = _encode_alone(tokenizer, style, answer)
    return np.concatenate([alone, tokenizer.encode_pieces([Piece(end, True)]), ends]).astype(np.int64)


def _encode_alone(tokenizer: Tokenizer, style: Style, answer: Message) -> np.ndarray:
    """An answer whose first characters would be in one token with the end of the prompt: as a model has to write it."""
    before = style.assistant.before
    text = before[len(before.rstrip(" ")) :] + style.said(answer)
    is_first_of_line = tokenizer.adds_spaces and before[-1:].isspace() and not before.endswith(" ")
    return tokenizer.encode(text) if is_first_of_line else tokenizer.encode_within(text)


def _up_to_end(tokenizer: Tokenizer, style: Style) -> str:
    """What stands after an answer up to the token that ends it; nothing where a style has none in this vocabulary."""
    after = style.assistant.after
    marks = [] if style.is_plain else [name for name in (*tokenizer.special, "</s>") if name in after]
    if not marks:
        return ""
    first = min(marks, key=lambda name: (after.index(name), -len(name)))
    return after[: after.index(first) + len(first)]


def _begins(ids: np.ndarray, beginning: np.ndarray) -> bool:
    return len(ids) >= len(beginning) and bool((ids[: len(beginning)] == beginning).all())


def _length_in_common(one: np.ndarray, other: np.ndarray) -> int:
    shorter = min(len(one), len(other))
    differs = np.flatnonzero(one[:shorter] != other[:shorter])
    return int(differs[0]) if len(differs) else shorter


def shown_parts(tokenizer: Tokenizer, ids: np.ndarray, is_asked: np.ndarray) -> list[tuple[str, bool]]:
    """The text of a row in pieces, special tokens by their names, each piece with whether it is asked for."""
    parts: list[tuple[str, bool]] = []
    edges = np.flatnonzero(np.diff(is_asked.astype(int))) + 1
    for part, asked in zip(np.split(ids, edges), np.split(is_asked, edges), strict=True):
        parts.append((_named(tokenizer, part), bool(asked[0])))
    return parts


def _named(tokenizer: Tokenizer, ids: np.ndarray) -> str:
    text, stream = "", tokenizer.stream()
    for id in ids.tolist():
        if id in tokenizer.hidden:  # what comes after it begins a text
            text += stream.flush() + tokenizer.hidden[id]
            stream = tokenizer.stream()
        else:
            text += stream.feed(id)
    return text + stream.flush()
