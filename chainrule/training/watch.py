"""What watches training: the loop tells a watcher what happens, and the watcher records, shows or plots it."""

from contextlib import ExitStack
from types import TracebackType
from typing import Any

Record = dict[str, Any]


class Watcher:
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

    def glimpse(self, record: Record) -> None:
        """step, contexts: what the model expects after a few places of the text."""

    def message(self, text: str) -> None:
        """A line for people."""

    def end(self) -> None:
        """Training came to its end."""

    def close(self) -> None:
        """Give back files and the terminal, however training ended; a second call does nothing."""


class Watchers(Watcher):
    """Several as one: with Watchers(Journal(path), View()) as watchers: train(..., watchers)"""

    def __init__(self, *watchers: Watcher):
        self.watchers = watchers

    def begin(self, facts: Record) -> None:
        for watcher in self.watchers:
            watcher.begin(facts)

    def step(self, record: Record) -> None:
        for watcher in self.watchers:
            watcher.step(record)

    def evaluation(self, record: Record) -> None:
        for watcher in self.watchers:
            watcher.evaluation(record)

    def epoch(self, record: Record) -> None:
        for watcher in self.watchers:
            watcher.epoch(record)

    def sample(self, record: Record) -> None:
        for watcher in self.watchers:
            watcher.sample(record)

    def glimpse(self, record: Record) -> None:
        for watcher in self.watchers:
            watcher.glimpse(record)

    def message(self, text: str) -> None:
        for watcher in self.watchers:
            watcher.message(text)

    def end(self) -> None:
        for watcher in self.watchers:
            watcher.end()

    def close(self) -> None:
        with ExitStack() as stack:  # each is closed, even where another fails to
            for watcher in self.watchers:
                stack.callback(watcher.close)

    def __enter__(self) -> "Watchers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
