"""Small models and tokenizers whose every probability can be worked out by hand."""

from typing import Any

import numpy as np
import torch


class TableBigram:
    """Logits of the next token are a row of a table; the state only counts the tokens read."""

    num_parameters = 0

    def __init__(self, table: np.ndarray) -> None:
        self.table = table
        self.vocabulary_size = len(table)
        self.tokens_read = 0

    def start(self, batch_size: int, condition: Any = None) -> dict[str, np.ndarray]:
        return {"read": np.zeros(batch_size, np.int64)}

    def step(self, tokens: np.ndarray, state: dict[str, np.ndarray]) -> tuple[np.ndarray, Any]:
        assert len(state["read"]) == len(tokens)
        self.tokens_read += tokens.size
        return self.table[tokens], {"read": state["read"] + tokens.shape[1]}


class TorchBigram(torch.nn.Module):
    """The same in torch, with gradients switched on."""

    def __init__(self, table: np.ndarray) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.as_tensor(table))
        self.vocabulary_size = len(table)

    def start(self, batch_size: int, condition: Any = None) -> list[torch.Tensor]:
        return [torch.zeros(batch_size)]

    def step(self, tokens: torch.Tensor, state: list[torch.Tensor]) -> tuple[torch.Tensor, Any]:
        assert isinstance(tokens, torch.Tensor) and len(state[0]) == len(tokens)
        return torch.nn.functional.embedding(tokens, self.table), [state[0] + tokens.shape[1]]


class Total(TableBigram):
    """The next token depends on the sum of all tokens read: a state that matters, as a recurrent model's."""

    def step(self, tokens: np.ndarray, state: dict[str, np.ndarray]) -> tuple[np.ndarray, Any]:
        totals = state["read"][:, None] + tokens.cumsum(-1)
        self.tokens_read += tokens.size
        return self.table[totals % len(self.table)], {"read": totals[:, -1]}


class Conditioned(Total):
    """A `Total` that starts from a number it is given: a model of text about something."""

    def start(self, batch_size: int, condition: Any = None) -> dict[str, np.ndarray]:
        assert len(condition) == batch_size
        return {"read": condition}


class LimitedContext(TableBigram):
    """A `Total` that refuses to read more than its context."""

    def __init__(self, table: np.ndarray, context_length: int) -> None:
        super().__init__(table)
        self.context_length = context_length

    def start(self, batch_size: int, condition: Any = None) -> dict[str, np.ndarray]:
        return {"total": np.zeros(batch_size, np.int64), "read": np.zeros(batch_size, np.int64)}

    def step(self, tokens: np.ndarray, state: dict[str, np.ndarray]) -> tuple[np.ndarray, Any]:
        read = state["read"] + tokens.shape[1]
        assert (read <= self.context_length).all()
        totals = state["total"][:, None] + tokens.cumsum(-1)
        return self.table[totals % len(self.table)], {"total": totals[:, -1], "read": read}


class Script(TableBigram):
    """Says the same ids whatever it is asked, by counting the tokens read since a prompt of none."""

    def __init__(self, ids: list[int], vocabulary_size: int) -> None:
        table = np.full((len(ids) + 1, vocabulary_size), -np.inf)
        table[np.arange(len(ids)), ids] = 0.0
        super().__init__(table)

    def step(self, tokens: np.ndarray, state: dict[str, np.ndarray]) -> tuple[np.ndarray, Any]:
        read = state["read"][:, None] + np.arange(1, tokens.shape[1] + 1)
        return self.table[read - 1], {"read": read[:, -1]}


class ByteStream:
    """UTF-8 bytes come out as text once a character is complete."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces
        self.held = b""

    def feed(self, token: int) -> str:
        self.held += self.pieces[token]
        for cut in range(len(self.held), -1, -1):
            try:
                text = self.held[:cut].decode()
            except UnicodeDecodeError:
                continue
            self.held = self.held[cut:]
            return text
        return ""

    def flush(self) -> str:
        text, self.held = self.held.decode(errors="replace"), b""
        return text


class Pieces:
    """Token i is the i-th piece of bytes; eos is the id after the last."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces
        self.eos = len(pieces)
        self.vocabulary_size = len(pieces) + 1

    def encode(self, text: str) -> np.ndarray:
        return np.array([self.pieces.index(character.encode()) for character in text], np.int64)

    def decode(self, ids: Any) -> str:
        return b"".join(self.pieces[token] for token in ids).decode(errors="replace")

    def stream(self) -> ByteStream:
        return ByteStream(self.pieces)


def letters(count: int) -> Pieces:
    return Pieces([bytes([ord("a") + index]) for index in range(count)])


def random_table(size: int, seed: int = 0, rows: int | None = None) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows or size, size)) * 1.5


def log_softmax(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    with np.errstate(divide="ignore"):
        return np.log(exponentials / exponentials.sum(-1, keepdims=True))
