"""The server process: uvicorn, with a graceful shutdown."""

import gc
import socket
import time
from collections.abc import Callable
from math import inf
from types import FrameType

import uvicorn
from fastapi import FastAPI

from chainrule.errors import UserError
from chainrule.serving.scheduler import Scheduler

GRACE = 2.0  # seconds beyond the scheduler's limit, for writing the last responses


class Server(uvicorn.Server):
    """After the first signal to stop, new requests get 503 and work in progress has a limited time to finish.

    The second signal aborts work in progress at once. Either way the exit code is 0.
    """

    def __init__(self, config: uvicorn.Config, scheduler: Scheduler, ready: Callable[[int], None]):
        super().__init__(config)
        self.scheduler, self.ready = scheduler, ready
        self.deadline = inf  # of time.monotonic()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            self.scheduler.abort()
            return
        self.should_exit = True
        self.deadline = time.monotonic() + self.scheduler.limits.shutdown_seconds + GRACE
        self.scheduler.drain()

    async def on_tick(self, counter: int) -> bool:
        must_exit = await super().on_tick(counter)
        return must_exit and (not self.server_state.tasks or time.monotonic() > self.deadline)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self.ready(self.servers[0].sockets[0].getsockname()[1])


def serve(app: FastAPI, scheduler: Scheduler, host: str, port: int, ready: Callable[[int], None]) -> None:
    """Serve until a signal to stop; `ready` is called with the port once requests are accepted."""
    listening = _listen(host, port)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=1,  # work in progress has ended before
        http="h11",  # bounds the length of a request's headers
        h11_max_incomplete_event_size=64 << 10,
    )
    gc.collect()
    gc.freeze()  # models and modules are never garbage, and scanning them takes longer than most requests
    with listening:
        Server(config, scheduler, ready).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol given, asyncio sets TCP_NODELAY; without, every response and token would take 40 ms longer.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        what = getattr(error, "strerror", None) or error
        raise UserError(f"cannot listen at {host}:{port} ({what}); choose another host or port") from None
    return listening
