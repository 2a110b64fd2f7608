"""The one thread that computes: jobs for the same model decode together, one token at a time (continuous batching).

One thread owns all models, so nothing is locked and torch's own threads never compete. In every turn it draws a token
for every row of every model (for beam searches: extends every hypothesis), prefills a chunk of a waiting prompt for
each model that has room, and runs one other task.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from chainrule.generation.decoder import PREFILL_CHUNK
from chainrule.kernels.threads import use_threads
from chainrule.serving.errors import shutting_down
from chainrule.serving.jobs import AnyBatch, AnyJob, DecodingRow, GenerationJob, JobUpdate

T = TypeVar("T")


class Signal(Enum):
    CANCELLED = "cancelled"  # some jobs are
    ABORT = "abort"  # end all work in progress
    STOP = "stop"  # the same, and end the thread


@dataclass(frozen=True)
class Task(Generic[T]):
    """A function to call, and the future of the event loop that gets its result."""

    function: Callable[[], T]
    future: "asyncio.Future[T]"

    def settle(self, result: T | None, error: Exception | None) -> None:
        """Called in the event loop."""
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)  # type: ignore[arg-type]


Message = AnyJob | Task[Any] | Signal
Count = Callable[[int, int], None]  # changes of the numbers of waiting and of decoding samples


class Worker:
    """Takes messages from `inbox`; everything it reports is called in the event loop `loop`."""

    def __init__(self, inbox: "SimpleQueue[Message]", loop: asyncio.AbstractEventLoop, count: Count, most_rows: int):
        self._inbox, self._loop, self._count, self._most_rows = inbox, loop, count, most_rows
        self._queues: dict[str, deque[AnyJob]] = {}  # waiting or in prefill, by model
        self._batches: dict[str, AnyBatch] = {}  # by model
        self._jobs: dict[DecodingRow, AnyJob] = {}  # by row
        self._tasks: deque[Task[Any]] = deque()

    def run(self) -> None:
        """Take turns until the signal to stop."""
        while self._receive():
            updates: list[JobUpdate] = []
            for batch in self._batches.values():
                updates += self._emit(batch)
            self._deliver(updates)
            for batch in list(self._batches.values()):
                try:
                    use_threads(batch.model, batch.size)
                    batch.advance()
                except BaseException as error:
                    self._deliver(self._fail(batch, _as_exception(error)))
            for id in self._queues:
                self._prefill(id)
            if self._tasks:
                self._run_task(self._tasks.popleft())

    def _receive(self) -> bool:
        """Take in all messages, sleeping where there is nothing to do. False: stop."""
        is_idle = not self._jobs and not self._tasks and not any(self._queues.values())
        while is_idle or not self._inbox.empty():
            message = self._inbox.get()
            is_idle = False
            if message is Signal.CANCELLED:
                self._drop_cancelled()
            elif isinstance(message, Signal):
                self._abort()
                if message is Signal.STOP:
                    return False
            elif isinstance(message, GenerationJob):
                self._queues.setdefault(message.served.id, deque()).append(message)
            else:
                self._tasks.append(message)
        return True

    def _drop_cancelled(self) -> None:
        """Drop cancelled jobs that wait; those that decode are dropped by `_emit`."""
        for id, queue in self._queues.items():
            self._report(waiting=-sum(job.count for job in queue if job.is_cancelled))
            self._queues[id] = deque(job for job in queue if not job.is_cancelled)

    def _prefill(self, id: str) -> None:
        """Prefill as many short prompts of a model, or as much of a long one, as it reads in one step."""
        left = PREFILL_CHUNK
        while self._queues[id] and left > 0:
            job = self._queues[id][0]
            if not self._admit(id, job):
                return
            left -= job.length

    def _admit(self, id: str, job: AnyJob) -> bool:
        """Read a chunk of a job's prompt if there is room for its rows, which join the batch after the last chunk.

        Whether the job has left the queue.
        """
        batch = self._batches.setdefault(id, job.new_batch())
        if batch.rows and not job.is_prefilling and batch.size + job.count > self._most_rows:
            return False
        rows: list[DecodingRow] = []
        error: Exception | None = None
        try:
            use_threads(batch.model, rows=PREFILL_CHUNK)
            job.is_prefilling = True
            added = job.prefill(batch)
            if added is None:
                return False
            rows = added
        except BaseException as problem:  # whatever it is, it ends this request alone
            error = _as_exception(problem)
        self._queues[id].popleft()
        if rows:
            job.rows = rows
            self._jobs |= dict.fromkeys(rows, job)
            self._report(waiting=-job.count, decoding=job.count)
        else:
            self._report(waiting=-job.count)
            self._deliver([(job, error)])
        return True

    def _emit(self, batch: AnyBatch) -> list[JobUpdate]:
        """The results of one turn by job, after the rows of cancelled jobs have been removed."""
        for row in [row for row in batch.rows if self._jobs[row].is_cancelled]:
            batch.remove(row)
            self._forget(row)
        if not batch.rows:
            return []
        before = list(batch.rows)
        try:
            emitted = batch.emit()
        except BaseException as error:
            return self._fail(batch, _as_exception(error))
        results: dict[AnyJob, list[Any]] = {}
        for row, result in emitted:
            results.setdefault(self._jobs[row], []).append(result)
        return [*results.items(), *self._finish(row for row in before if row.is_over)]

    def _finish(self, rows: Iterable[DecodingRow]) -> list[JobUpdate]:
        """The updates of jobs whose last row is over, or one of whose rows has failed."""
        updates: list[JobUpdate] = []
        for row in rows:
            job = self._jobs[row]
            self._forget(row)
            if row.error is not None:
                job.is_cancelled = True  # so that its other rows stop, too
                updates.append((job, row.error))
            elif not any(each in self._jobs for each in job.rows):
                updates.append((job, None))
        return updates

    def _fail(self, batch: AnyBatch, error: Exception) -> list[JobUpdate]:
        """End all jobs of a batch that cannot go on; the next job of its model starts a new batch."""
        jobs = dict.fromkeys(self._jobs[row] for row in batch.rows)
        for row in list(batch.rows):
            self._forget(row)
        self._batches = {id: each for id, each in self._batches.items() if each is not batch}
        return [(job, error) for job in jobs]

    def _abort(self) -> None:
        """End all jobs and tasks with the error that the server is shutting down."""
        jobs = [*dict.fromkeys(self._jobs.values()), *(job for queue in self._queues.values() for job in queue)]
        for row in list(self._jobs):
            self._forget(row)
        for queue in self._queues.values():
            self._report(waiting=-sum(job.count for job in queue))
        self._batches, self._queues = {}, {}
        self._deliver([(job, shutting_down()) for job in jobs])
        for task in self._tasks:
            self._call(task.settle, None, shutting_down())
        self._tasks.clear()

    def _forget(self, row: DecodingRow) -> None:
        del self._jobs[row]
        self._report(decoding=-row.width)

    def _run_task(self, task: Task[Any]) -> None:
        if task.future.cancelled():
            return
        try:
            result, error = task.function(), None
        except BaseException as problem:
            result, error = None, _as_exception(problem)
        self._call(task.settle, result, error)

    def _report(self, waiting: int = 0, decoding: int = 0) -> None:
        if waiting or decoding:
            self._call(self._count, waiting, decoding)

    def _deliver(self, updates: list[JobUpdate]) -> None:
        """All updates of a turn in one call into the event loop."""
        if updates:
            self._call(_put, updates)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)


def _as_exception(error: BaseException) -> Exception:
    """An Exception to raise in the event loop, which any other BaseException, as a panic of Rust, would end."""
    if isinstance(error, Exception):
        return error
    wrapped = RuntimeError(f"{type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


def _put(updates: list[JobUpdate]) -> None:
    for job, update in updates:
        job.updates.put_nowait((job, update))
