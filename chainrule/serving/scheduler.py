"""Admission of work to the models: jobs and tasks from the event loop are queued for the one worker thread.

Everything here runs in the event loop; `worker.py` is the other side. The counts are changed only in the event loop, so
they need no lock.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TypeVar

from chainrule.serving.errors import APIError, shutting_down
from chainrule.serving.jobs import AnyJob
from chainrule.serving.worker import Message, Signal, Task, Worker

T = TypeVar("T")


@dataclass(frozen=True)
class SchedulerLimits:
    """How much work is accepted, and how long a shutdown may take."""

    rows: int = 64  # of one model that decode together; a beam of width 5 counts as five
    waiting: int = 256  # samples that wait to be decoded, over all models
    tasks: int = 64  # other work that waits: explanations, dice
    shutdown_seconds: float = 10.0  # for work in progress when the server is asked to stop


class Scheduler:
    """Accepts jobs and tasks, refuses them with 429 where too many wait and with 503 during a shutdown."""

    def __init__(self, limits: SchedulerLimits | None = None):
        self.limits = limits or SchedulerLimits()
        self.is_draining = False
        self.waiting = 0  # samples that are not decoding yet
        self.decoding = 0  # samples that are
        self.tasks = 0
        self._inbox: SimpleQueue[Message] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the worker thread; called within the event loop that answers requests."""
        worker = Worker(self._inbox, asyncio.get_running_loop(), self._count, self.limits.rows)
        self._thread = threading.Thread(target=worker.run, name="chainrule-worker", daemon=True)
        self._thread.start()

    def drain(self) -> None:
        """Accept nothing new; work in progress has `shutdown_seconds` to finish and is then aborted."""
        if self._thread is None or self.is_draining:
            return
        self.is_draining = True
        timer = threading.Timer(self.limits.shutdown_seconds, self.abort)
        timer.daemon = True
        timer.start()

    def abort(self) -> None:
        """End all work in progress with an error that says that the server is shutting down."""
        self._inbox.put(Signal.ABORT)

    def stop(self) -> None:
        """Abort what is left and end the worker thread."""
        self._inbox.put(Signal.STOP)
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(timeout=5)

    async def submit(self, *jobs: AnyJob) -> None:
        """Queue these jobs, all or none; their results arrive in their `updates`."""
        self._refuse_if_draining()
        count = sum(job.count for job in jobs)
        if self.waiting and self.waiting + count > self.limits.waiting:
            raise APIError(429, f"{self.waiting} samples are waiting already; try again in a moment", "server_busy")
        self.waiting += count
        for job in jobs:
            self._inbox.put(job)

    def cancel(self, *jobs: AnyJob) -> None:
        """Stop these jobs at the next token."""
        for job in jobs:
            job.is_cancelled = True
        self._inbox.put(Signal.CANCELLED)

    async def run(self, function: Callable[[], T]) -> T:
        """Run any other work with the models in the worker thread, between the steps of decoding."""
        self._refuse_if_draining()
        if self.tasks >= self.limits.tasks:
            raise APIError(
                429, f"{self.tasks} other requests are waiting already; try again in a moment", "server_busy"
            )
        self.tasks += 1
        try:
            future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            self._inbox.put(Task(function, future))
            return await future
        finally:
            self.tasks -= 1

    def _refuse_if_draining(self) -> None:
        if self.is_draining:
            raise shutting_down()

    def _count(self, waiting: int, decoding: int) -> None:
        """Add to the counts; the worker has this called in the event loop."""
        self.waiting += waiting
        self.decoding += decoding
