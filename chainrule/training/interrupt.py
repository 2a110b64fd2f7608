"""Ctrl-C and SIGTERM while training: the first asks to stop after the step, the second leaves at once."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Whether a stop was asked for, and by which signal."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            os._exit(128 + number)
        self.signal = number


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """A context in which SIGINT and SIGTERM are noted instead of raised. Python handles signals in the main thread
    only, so in another thread this does nothing."""
    request = StopRequest()
    try:
        before = {number: signal.signal(number, request) for number in SIGNALS}
    except ValueError:
        yield request
        return
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
