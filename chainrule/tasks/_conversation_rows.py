"""Conversations as rows of tokens, with what is asked for in them: cut at turns where they are too long, stored, and
read in batches.

A row is one conversation, or a piece of one, and is read from a state of its own: no conversation sees another.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chainrule.data.batches import TrainingBatch
from chainrule.data.buckets import Buckets
from chainrule.errors import UserError
from chainrule.models.contract import IGNORE
from chainrule.storage import load_arrays, save_arrays
from chainrule.text.base import Tokenizer
from chainrule.text.chat import Message
from chainrule.text.rendering import Rendered, render

Talk = Sequence[Message]


@dataclass(frozen=True)
class Rows:
    """Rendered conversations, and of each how many bytes its answers have, with one for the end of each."""

    ids: list[np.ndarray]
    is_asked: list[np.ndarray]
    answer_bytes: list[int]

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(cls, rendered: Sequence[Rendered]) -> "Rows":
        return cls(
            [each.ids for each in rendered],
            [each.is_asked for each in rendered],
            [each.answer_bytes for each in rendered],
        )

    @property
    def tokens(self) -> int:
        """That are read: of each row all but the last, after which nothing comes."""
        return sum(len(each) - 1 for each in self.ids)

    @property
    def asked(self) -> int:
        return sum(int(each.sum()) for each in self.is_asked)

    @property
    def longest(self) -> int:
        return max(map(len, self.ids), default=0)

    def some(self, most: int | None) -> "Rows":
        """Rows from all over that have about so many tokens to read."""
        if most is None or self.tokens <= most or not len(self):
            return self
        places = np.unique(np.linspace(0, len(self) - 1, max(int(len(self) * most / self.tokens), 1)).astype(int))
        return Rows(*([column[place] for place in places] for column in (self.ids, self.is_asked, self.answer_bytes)))

    def counts(self, vocabulary_size: int) -> np.ndarray:
        """How often each token is asked for."""
        asked = [ids[is_asked] for ids, is_asked in zip(self.ids, self.is_asked, strict=True)]
        return np.bincount(np.concatenate([*asked, np.zeros(0, np.int64)]), minlength=vocabulary_size)

    def batch(self, rows: Sequence[int], padding: int) -> TrainingBatch:
        """Some rows side by side; what is read beyond the end of one is asked for nothing."""
        length = max(len(self.ids[row]) for row in rows) - 1
        inputs = np.full((len(rows), length), padding, np.int64)
        targets = np.full((len(rows), length), IGNORE, np.int64)
        for place, row in enumerate(rows):
            ids, is_asked = self.ids[row], self.is_asked[row]
            inputs[place, : len(ids) - 1] = ids[:-1]
            targets[place, : len(ids) - 1] = np.where(is_asked[1:], ids[1:], IGNORE)
        return TrainingBatch(inputs, targets)

    def save(self, path: Path) -> None:
        arrays = {
            "ids": np.concatenate([*self.ids, np.zeros(0, np.int64)]).astype(np.uint32),
            "is_asked": np.concatenate([*self.is_asked, np.zeros(0, bool)]).astype(np.bool_),
            "ends": np.cumsum([len(each) for each in self.ids], dtype=np.int64),
            "answer_bytes": np.array(self.answer_bytes, np.int64),
        }
        save_arrays(path, arrays)

    @classmethod
    def load(cls, path: Path) -> "Rows":
        arrays, _ = load_arrays(path)
        ends = arrays["ends"]
        if not len(ends):
            return cls([], [], [])
        ids = np.split(np.asarray(arrays["ids"], np.int64), ends[:-1])
        return cls(ids, np.split(np.asarray(arrays["is_asked"], bool), ends[:-1]), arrays["answer_bytes"].tolist())


class ConversationBatches:
    """As many rows as fit into so many tokens, of about the same length, in a new order every epoch."""

    def __init__(self, rows: Rows, padding: int, tokens: int, seed: int):
        if not len(rows):
            raise UserError("there is no conversation to train on; give more conversations")
        self._rows, self._padding = rows, padding
        self._buckets = Buckets(np.array([len(each) - 1 for each in rows.ids]), tokens, seed)
        self.batch_size = max(self._buckets.sizes)
        self.tokens_per_epoch = rows.tokens
        self.length = rows.longest - 1

    @property
    def tokens_per_step(self) -> float:
        return self.tokens_per_epoch / len(self._buckets)

    def epochs(self, steps: int) -> list[float]:
        return [steps / len(self._buckets)]

    def batch(self, step: int) -> TrainingBatch:
        return self._rows.batch(self._buckets.rows(step).tolist(), self._padding)


@dataclass
class Encoded:
    """What became of some conversations: their rows, which of them have any, and how many had to be cut."""

    rows: Rows
    kept: list[int]
    cut: int = 0  # conversations of several pieces
    too_long: int = 0  # exchanges of more tokens than may be read at once

    def notes(self, part: str, most: int) -> list[str]:
        """Sentences on what was cut and left out of a part of the data."""
        of = f"{part} " if part else ""
        found = []
        if self.cut:
            found.append(f"{self.cut:,} {of}conversations of more than {most:,} tokens were cut at turns")
        if self.too_long:
            found.append(
                f"{self.too_long:,} {of}exchanges of more than {most:,} tokens were left out (see most_tokens)"
            )
        return found


def encode_conversations(tokenizer: Tokenizer, talks: Sequence[Talk], learn_from: str, most: int) -> Encoded:
    """Rows of at most so many tokens."""
    rendered: list[Rendered] = []
    kept: list[int] = []
    cut = too_long = 0
    for number, talk in enumerate(talks):
        rows = render(tokenizer, talk, learn_from)
        if max(len(row.ids) for row in rows) > most:
            pieces, left_out = cut_at_turns(tokenizer, talk, most)
            too_long += left_out
            cut += len(pieces) > 1
            wanted = pieces if learn_from != "last" else pieces[-1:] if _ends_alike(pieces, talk) else []
            rows = [row for piece in wanted for row in render(tokenizer, piece, learn_from)]
        if rows:
            kept.append(number)
            rendered += rows
    return Encoded(Rows.of(rendered), kept, cut, too_long)


def _ends_alike(pieces: list[list[Message]], talk: Talk) -> bool:
    """Whether the last piece has the last answer."""
    return bool(pieces) and pieces[-1][-1] is talk[-1]


def cut_at_turns(tokenizer: Tokenizer, talk: Talk, most: int) -> tuple[list[list[Message]], int]:
    """Pieces that fit into so many tokens, each of whole exchanges after what the system says; and how many exchanges
    fit into none, and are left out."""
    opening = [message for message in talk if message.role == "system"]
    pieces: list[list[Message]] = []
    is_open, too_long = False, 0  # whether the last piece may go on
    for exchange in exchanges_of(talk[len(opening) :]):
        if is_open and _length(tokenizer, [*pieces[-1], *exchange]) <= most:
            pieces[-1] += exchange
        elif _length(tokenizer, [*opening, *exchange]) <= most:
            pieces.append([*opening, *exchange])
            is_open = True
        else:
            is_open = False
            too_long += 1
    return pieces, too_long


def exchanges_of(turns: Talk) -> list[list[Message]]:
    """A question and its answer each."""
    return [list(turns[at : at + 2]) for at in range(0, len(turns), 2)]


def _length(tokenizer: Tokenizer, talk: Talk) -> int:
    return max(len(row.ids) for row in render(tokenizer, talk))
