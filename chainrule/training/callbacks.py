"""Callbacks: the training loop reports every event to a callback, which records, shows or plots it."""

from contextlib import ExitStack
from types import TracebackType
from typing import Any

Record = dict[str, Any]  # an event with its name in "event"; chainrule/runs/records.py has the fields of each


class Callback:
    """Ignores everything; a subclass defines the methods for the events it cares about."""

    def on_event(self, record: Record) -> None:
        """Called for every event of training; calls the method that is named for it."""
        getattr(self, record["event"])(record)

    def begin(self, record: Record) -> None:
        """architecture, parameters, vocabulary_size, total_steps, budget_seconds, resumed_at_step, chosen."""

    def step(self, record: Record) -> None:
        """step, tokens, progress, seconds, loss, bits_per_byte, learning_rate, gradient_norm (the largest since the
        last record), clipped (the share of clipped updates), tokens_per_second, memory_bytes, epochs (one figure per
        source of the text)."""

    def evaluation(self, record: Record) -> None:
        """step, seconds, loss, perplexity, bits_per_byte, is_best, and what the task measures."""

    def epoch(self, record: Record) -> None:
        """epoch, step, loss: the average training loss of an epoch that has just ended."""

    def sample(self, record: Record) -> None:
        """step, text."""

    def probe(self, record: Record) -> None:
        """step, contexts: what the model predicts in a few fixed contexts."""

    def end(self, record: Record) -> None:
        """Training came to its end."""

    def message(self, text: str) -> None:
        """A line for people."""

    def close(self) -> None:
        """Release files and the terminal, however training ended; a second call does nothing."""


class CallbackList(Callback):
    """Several callbacks as one: with CallbackList(Journal(path), View()) as callbacks: ..."""

    def __init__(self, *callbacks: Callback):
        self.callbacks = callbacks

    def on_event(self, record: Record) -> None:
        for callback in self.callbacks:
            callback.on_event(record)

    def message(self, text: str) -> None:
        for callback in self.callbacks:
            callback.message(text)

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
