"""Several processes for one training: each reads its rows of every batch, and their gradients are added up.

On small models processes use cores better than torch's threads do, which wait for each other at every operation. They
are forked, so that each has the model, the text and the settings; weights, gradients and states of recurrent models lie
in memory that all of them see. Which rows are whose, and in which order gradients are added, never changes, so that a
training of two processes comes out the same every time. Each has one thread: those of OpenMP do not survive a fork.
"""

import os
import signal
import struct
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from mmap import mmap
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor, nn

from chainrule.errors import UserError
from chainrule.layers.embedding import HashedNgrams

ORDER = struct.Struct("qd")  # the step, and the progress that decides what is done in it
CAN_FORK = hasattr(os, "fork") and sys.platform != "darwin"  # where libraries of the system do not survive it

Work = Callable[[int, int, float], float]  # (rank, step, progress): leaves gradients in the model, gives its nats


def check_workers(count: int) -> None:
    if count > 1 and not CAN_FORK:
        raise UserError(f"workers must be 1 on this system, which cannot fork processes safely, got {count}")


def shared(tensor: Tensor) -> Tensor:
    """A copy in memory that forked processes will share."""
    copy = torch.frombuffer(mmap(-1, tensor.nbytes), dtype=tensor.dtype).view(tensor.shape)
    return copy.copy_(tensor.detach())


class Gradients:
    """Shared memory for the gradients of one process: dense ones whole; of a sparse one, the rows that are not zero."""

    def __init__(self, model: nn.Module, tokens: int):
        self._parameters = [each for each in model.parameters() if each.requires_grad]
        orders = {each.weight: each.largest - 1 for each in model.modules() if isinstance(each, HashedNgrams)}
        self._rooms: list[tuple[Tensor, Tensor | None]] = []  # values, and which rows they are of
        for each in self._parameters:
            if each in orders:
                most = min(tokens * orders[each], len(each))
                self._rooms.append((shared(each.new_zeros(most, each.shape[1])), shared(torch.zeros(most + 1).long())))
            else:
                self._rooms.append((shared(torch.zeros_like(each)), None))

    def put(self) -> None:
        """Move the model's gradients into the shared memory; afterwards the model has none."""
        for parameter, (values, rows) in zip(self._parameters, self._rooms, strict=True):
            gradient, parameter.grad = parameter.grad, None
            if gradient is None:  # of a process that had no row to read
                (values if rows is None else rows).zero_()
                continue
            if rows is None:
                values.copy_(gradient)
                continue
            gradient = gradient.coalesce()
            found = gradient.indices()[0]
            rows[0] = len(found)
            rows[1 : len(found) + 1] = found
            values[: len(found)] = gradient.values()

    def add(self) -> None:
        """Add the gradients in the shared memory to the model's."""
        dense, more = [], []
        for parameter, (values, rows) in zip(self._parameters, self._rooms, strict=True):
            if parameter.grad is None:
                continue
            if rows is None:
                dense.append(parameter.grad)
                more.append(values)
                continue
            count = int(rows[0])
            theirs = torch.sparse_coo_tensor(
                rows[None, 1 : count + 1], values[:count], parameter.shape, check_invariants=False
            )
            parameter.grad = parameter.grad + theirs
        torch._foreach_add_(dense, more)


class WorkerPool:
    """Forked worker processes: `begin` starts a step in all of them, `wait` adds their gradients to the model's."""

    def __init__(self, model: nn.Module, work: Work, others: int, tokens: int):
        for parameter in model.parameters():
            parameter.data = shared(parameter)
        self._rooms = [Gradients(model, tokens) for _ in range(others)]
        self._pipes: list[Connection[Any, Any]] = []
        self._ids: list[int] = []
        for rank, room in enumerate(self._rooms, 1):
            mine, theirs = Pipe()
            with warnings.catch_warnings():  # Python says that threads do not survive this; none is needed
                warnings.simplefilter("ignore", DeprecationWarning)
                process = os.fork()
            if not process:
                _serve(theirs, lambda step, progress, rank=rank: work(rank, step, progress), room)  # type: ignore[misc]
            theirs.close()
            self._pipes.append(mine)
            self._ids.append(process)

    def begin(self, step: int, progress: float) -> None:
        for pipe in self._pipes:
            try:
                pipe.send_bytes(ORDER.pack(step, progress))
            except OSError:
                raise self._lost() from None

    def wait(self) -> float:
        """Wait for all workers and add their gradients to the model's; returns the sum of their nats."""
        nats = 0.0
        for pipe, room in zip(self._pipes, self._rooms, strict=True):
            try:
                answer = pipe.recv_bytes()
            except (EOFError, OSError):
                raise self._lost() from None
            if len(answer) != 8:
                raise RuntimeError(f"a process of the training failed:\n{answer.decode(errors='replace')}")
            nats += struct.unpack("d", answer)[0]
            room.add()
        return nats

    def _lost(self) -> UserError:
        return UserError(
            "a process of the training was killed, as systems do when memory runs out; train with a smaller batch_size"
            " or workers=1"
        )

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._ids:
            os.waitpid(process, 0)
        self._pipes, self._ids = [], []


def _serve(pipe: "Connection[Any, Any]", work: Callable[[int, float], float], room: Gradients) -> None:
    """The loop of a worker process, until its pipe is closed; signals are handled by the first process alone."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        _close_files_but(pipe.fileno())  # the lock of the run's folder above all
        while True:
            step, progress = ORDER.unpack(pipe.recv_bytes())
            nats = work(step, progress)
            room.put()
            pipe.send_bytes(struct.pack("d", nats))
    except EOFError:
        os._exit(0)
    except BaseException:
        try:
            pipe.send_bytes(traceback.format_exc().encode())
        finally:
            os._exit(1)


def _close_files_but(kept: int) -> None:
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """A context in which torch uses this many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
