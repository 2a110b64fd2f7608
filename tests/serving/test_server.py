"""Where the server listens."""

import asyncio
import socket

import pytest

from chainrule.errors import UserError
from chainrule.serving.server import _listen
from tests.serving.running import run_apart


def test_what_is_written_leaves_at_once():
    """asyncio switches off Nagle's algorithm, but only for sockets that are named as TCP."""

    async def find() -> int:
        found = asyncio.get_running_loop().create_future()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listening = _listen("127.0.0.1", 0)
        async with await asyncio.start_server(connected, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            writer.close()
            return await found

    assert run_apart(find()) != 0


def test_a_port_that_is_taken_is_told():
    with _listen("127.0.0.1", 0) as first:
        first.listen()
        port = first.getsockname()[1]
        with pytest.raises(UserError, match=f"cannot listen at 127.0.0.1:{port} .*choose another host or port"):
            _listen("127.0.0.1", port)
