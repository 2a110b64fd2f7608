"""The server process: uvicorn, and what a signal to stop means."""

import gc
import socket
import time
from collections.abc import Callable
from math import inf
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from chainrule.errors import UserError
from chainrule.serving.scheduler import Engine

GRACE = 2.0  # seconds beyond the engine's limit in which the last answers are written


class Server(uvicorn.Server):
    """Told to stop, it answers 503 to what is new and lets what is under way finish, for a limited time.

    Told again, it ends what is under way at once. Either way it has done what it was told, and exits with 0.
    """

    def __init__(self, config: uvicorn.Config, engine: Engine, ready: Callable[[int], None]):
        super().__init__(config)
        self.engine, self.ready = engine, ready
        self.ends_at = inf  # on the clock of time.monotonic

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            self.engine.end()
            return
        self.should_exit = True
        self.ends_at = time.monotonic() + self.engine.limits.shutdown_seconds + GRACE
        self.engine.drain()

    async def on_tick(self, counter: int) -> bool:
        is_told = await super().on_tick(counter)
        return is_told and (not self.server_state.tasks or time.monotonic() > self.ends_at)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self.ready(self.servers[0].sockets[0].getsockname()[1])


def serve(app: FastAPI, engine: Engine, host: str, port: int, ready: Callable[[int], None]) -> None:
    """Until it is told to stop; `ready` hears the port once requests are taken."""
    listening = _listen(host, port)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=1,  # what was under way has ended before
        http="h11",  # which bounds how long the headers of a request may be
        h11_max_incomplete_event_size=64 << 10,
    )
    gc.collect()
    gc.freeze()  # models and modules stay: to search them for garbage would take longer than most requests do
    with listening:
        Server(config, engine, ready).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    family: Any = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, or asyncio would leave it waiting to fill its packets: 40 ms for every answer and every token.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        what = getattr(error, "strerror", None) or error
        raise UserError(f"cannot listen at {host}:{port} ({what}); choose another with --host and --port") from None
    return listening
