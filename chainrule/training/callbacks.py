"""What watches training: the loop tells a callback what happens, and the callback records, shows or plots it."""

from contextlib import ExitStack
from types import TracebackType
from typing import Any

Record = dict[str, Any]


class Callback:
    """Does nothing; one that inherits from it defines the methods it cares about."""

    def begin(self, facts: Record) -> None:
        """architecture, parameters, vocabulary_size, total_steps, budget_seconds, resumed_at_step, what was chosen."""

    def step(self, record: Record) -> None:
        """step, tokens, progress, seconds, loss, bits_per_byte, learning_rate, gradient_norm (the largest since the
        last record), clipped (which part of the updates), tokens_per_second, memory_bytes, epochs (one figure per
        source of the text)."""

    def evaluation(self, record: Record) -> None:
        """step, loss, perplexity, bits_per_byte, is_best."""

    def epoch(self, record: Record) -> None:
        """epoch, step, loss: the average training loss of an epoch that has just ended."""

    def sample(self, record: Record) -> None:
        """step, text."""

    def probe(self, record: Record) -> None:
        """step, contexts: what the model expects after a few places of the text."""

    def message(self, text: str) -> None:
        """A line for people."""

    def end(self) -> None:
        """Training came to its end."""

    def close(self) -> None:
        """Give back files and the terminal, however training ended; a second call does nothing."""


class CallbackList(Callback):
    """Several as one: with CallbackList(Journal(path), View()) as callbacks: train(..., callbacks)"""

    def __init__(self, *callbacks: Callback):
        self.callbacks = callbacks

    def begin(self, facts: Record) -> None:
        for callback in self.callbacks:
            callback.begin(facts)

    def step(self, record: Record) -> None:
        for callback in self.callbacks:
            callback.step(record)

    def evaluation(self, record: Record) -> None:
        for callback in self.callbacks:
            callback.evaluation(record)

    def epoch(self, record: Record) -> None:
        for callback in self.callbacks:
            callback.epoch(record)

    def sample(self, record: Record) -> None:
        for callback in self.callbacks:
            callback.sample(record)

    def probe(self, record: Record) -> None:
        for callback in self.callbacks:
            callback.probe(record)

    def message(self, text: str) -> None:
        for callback in self.callbacks:
            callback.message(text)

    def end(self) -> None:
        for callback in self.callbacks:
            callback.end()

    def close(self) -> None:
        with ExitStack() as stack:  # each is closed, even where another fails to
            for callback in self.callbacks:
                stack.callback(callback.close)

    def __enter__(self) -> "CallbackList":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
