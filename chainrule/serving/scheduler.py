"""The one thread that computes: requests for the same model decode together, a token each at a time.

One thread owns all models, so nothing is locked and torch's own threads never fight each other. By turns it draws a
token for every row of every model (of a translator, it makes every beam a token longer), reads a piece of a new prompt
for each model that has room, and does one other task.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

from chainrule.generation.decoder import AT_ONCE
from chainrule.kernels.threads import use_threads
from chainrule.serving.jobs import Answer, DecodingBatch, GenerationJob
from chainrule.serving.problems import Problem

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    rows: int = 64  # of one model that decode together; a beam of width 5 has five
    waiting: int = 256  # samples that wait for their turn, over all models
    tasks: int = 64  # other work that waits: explanations, dice
    shutdown_seconds: float = 10.0  # for what is under way when the server is told to stop


class Engine:
    def __init__(self, limits: Limits | None = None):
        self.limits = limits or Limits()
        self.is_draining = False
        self.waiting = 0  # samples that have no row yet
        self.decoding = 0  # samples that have
        self.tasks = 0
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, name="chainrule-engine", daemon=True)
        self._batches: dict[str, DecodingBatch] = {}
        self._owners: dict[Any, GenerationJob] = {}
        self._queues: dict[str, deque[GenerationJob]] = {}
        self._todo: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()

    def begin(self) -> None:
        """From within the event loop that requests are answered in."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def drain(self) -> None:
        """Take nothing new; what is under way has `shutdown_seconds` to finish, then it is ended."""
        if self._loop is None or self.is_draining:
            return
        self.is_draining = True
        timer = threading.Timer(self.limits.shutdown_seconds, self.end)
        timer.daemon = True
        timer.start()

    def end(self) -> None:
        """What is still under way hears now that the server is going."""
        self._inbox.put("end")

    def stop(self) -> None:
        self._inbox.put("stop")
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    async def generate(self, *wanted: GenerationJob) -> None:
        """Take these, all or none; what comes of them arrives as it comes."""
        self._refuse_if_draining()
        count = sum(each.count for each in wanted)
        if self.waiting and self.waiting + count > self.limits.waiting:
            raise Problem(429, f"{self.waiting} samples are waiting already; try again in a moment", "server_busy")
        self.waiting += count
        for each in wanted:
            self._inbox.put(each)

    async def run(self, task: Callable[[], T]) -> T:
        """Any other work with the models, in its turn."""
        self._refuse_if_draining()
        if self.tasks >= self.limits.tasks:
            raise Problem(429, f"{self.tasks} other requests are waiting already; try again in a moment", "server_busy")
        self.tasks += 1
        try:
            future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            self._inbox.put((task, future))
            return await future
        finally:
            self.tasks -= 1

    def cancel(self, *wanted: GenerationJob) -> None:
        for each in wanted:
            each.is_cancelled = True
        self._inbox.put("cancelled")

    def _refuse_if_draining(self) -> None:
        if self.is_draining:
            raise Problem(503, "the server is shutting down", "shutting_down")

    # From here on, everything runs in the engine's own thread.

    def _work(self) -> None:
        while self._receive():
            answers: list[tuple[GenerationJob, Answer]] = []
            for batch in self._batches.values():
                answers += self._turn(batch)
            self._deliver(answers)
            for batch in self._batches.values():
                try:
                    use_threads(batch.model, batch.size)
                    batch.advance()
                except BaseException as error:
                    self._deliver(self._fail(batch, _as_exception(error)))
            for id in self._queues:
                self._read_prompts(id)
            if self._todo:
                self._do(*self._todo.popleft())

    def _receive(self) -> bool:
        """Take in what has come; with nothing to do, sleep until something comes. False: it is over."""
        is_idle = not self._owners and not self._todo and not any(self._queues.values())
        while is_idle or not self._inbox.empty():
            message = self._inbox.get()
            is_idle = False
            if message == "stop":
                self._end_all()
                return False
            if message == "end":
                self._end_all()
            elif message == "cancelled":
                self._drop_cancelled()
            elif isinstance(message, GenerationJob):
                self._queues.setdefault(message.served.id, deque()).append(message)
            else:
                self._todo.append(message)
        return True

    def _drop_cancelled(self) -> None:
        """Those that wait; those that decode are dropped in their turn."""
        for id, queue in self._queues.items():
            for each in queue:
                if each.is_cancelled:
                    self._post(self._left, each.count)
            self._queues[id] = deque(each for each in queue if not each.is_cancelled)

    def _read_prompts(self, id: str) -> None:
        """As many of a model's short prompts, or as much of a long one, as it reads at one time."""
        left = AT_ONCE
        while self._queues[id] and left > 0:
            wanted = self._queues[id][0]
            if not self._admit(id, wanted):
                return
            left -= wanted.length

    def _admit(self, id: str, wanted: GenerationJob) -> bool:
        """Read a piece of a prompt, if there is room for all of its rows; once it is read, they join. Whether it is."""
        batch = self._batches.get(id) or wanted.begin()
        self._batches[id] = batch
        if batch.rows and not wanted.is_begun and batch.size + wanted.count > self.limits.rows:
            return False
        rows: list[Any] = []
        answer: Answer = None
        try:
            use_threads(batch.model, rows=AT_ONCE)
            wanted.is_begun = True
            found = wanted.read_on(batch)
            if found is None:
                return False
            rows = found
        except BaseException as error:  # whatever it is, it ends this request alone
            answer = _as_exception(error)
        self._queues[id].popleft()
        if rows:
            wanted.rows = rows
            self._owners |= dict.fromkeys(rows, wanted)
            self._post(self._entered, wanted.count)
        else:
            self._post(self._left, wanted.count)
            self._deliver([(wanted, answer)])
        return True

    def _turn(self, batch: DecodingBatch) -> list[tuple[GenerationJob, Answer]]:
        """What came of every row whose reader is still there; then what each request hears of it."""
        for row in [row for row in batch.rows if self._owners[row].is_cancelled]:
            batch.remove(row)
            self._forget(row)
        if not batch.rows:
            return []
        before = list(batch.rows)
        try:
            rolled = batch.roll()
        except BaseException as error:
            return self._fail(batch, _as_exception(error))
        heard: dict[GenerationJob, list[Any]] = {}
        for row, told in rolled:
            heard.setdefault(self._owners[row], []).append(told)
        answers: list[tuple[GenerationJob, Answer]] = list(heard.items())
        for row in before:
            if row.is_over:
                owner = self._owners[row]
                self._forget(row)
                if row.error is not None:
                    owner.is_cancelled = True  # the others of its samples stop too
                    answers.append((owner, row.error))
                elif not any(each in self._owners for each in owner.rows):
                    answers.append((owner, None))
        return answers

    def _fail(self, batch: DecodingBatch, error: Exception) -> list[tuple[GenerationJob, Answer]]:
        """A batch that cannot go on ends for everyone in it, and the next request begins a new one."""
        owners = dict.fromkeys(self._owners[row] for row in batch.rows)
        for row in list(batch.rows):
            self._forget(row)
        self._batches = {id: each for id, each in self._batches.items() if each is not batch}
        return [(owner, error) for owner in owners]

    def _end_all(self) -> None:
        """What is still under way hears that the server is going."""
        gone = Problem(503, "the server is shutting down", "shutting_down")
        left = [*dict.fromkeys(self._owners.values()), *(each for queue in self._queues.values() for each in queue)]
        for row in list(self._owners):
            self._forget(row)
        for queue in self._queues.values():
            self._post(self._left, sum(each.count for each in queue))
        self._batches, self._queues = {}, {}
        self._deliver([(each, gone) for each in left])
        for _, future in self._todo:
            self._post(_settle, future, None, gone)
        self._todo.clear()

    def _forget(self, row: Any) -> None:
        del self._owners[row]
        self._post(self._finished, row.width)

    def _do(self, task: Callable[[], Any], future: "asyncio.Future[Any]") -> None:
        if future.cancelled():
            return
        try:
            result, error = task(), None
        except BaseException as problem:
            result, error = None, _as_exception(problem)
        self._post(_settle, future, result, error)

    def _deliver(self, answers: list[tuple[GenerationJob, Answer]]) -> None:
        """All of a turn in one message to the event loop."""
        if answers:
            self._post(_put, answers)

    def _post(self, function: Callable[..., None], *arguments: Any) -> None:
        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    # These run in the event loop, so that its counts are never torn.

    def _entered(self, count: int) -> None:
        self.waiting -= count
        self.decoding += count

    def _left(self, count: int) -> None:
        self.waiting -= count

    def _finished(self, count: int) -> None:
        self.decoding -= count


def _as_exception(error: BaseException) -> Exception:
    """What a request may be told: panics of libraries are no Exceptions, and would end the event loop."""
    if isinstance(error, Exception):
        return error
    told = RuntimeError(f"{type(error).__name__}: {error}")
    told.__cause__ = error
    return told


def _put(answers: list[tuple[GenerationJob, Answer]]) -> None:
    for wanted, answer in answers:
        wanted.answers.put_nowait((wanted, answer))


def _settle(future: "asyncio.Future[Any]", result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
