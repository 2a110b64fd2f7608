"""Responses as server-sent events, and giving up work whose client has gone."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

from fastapi import Request
from fastapi.responses import StreamingResponse

from chainrule.errors import UserError
from chainrule.serving.errors import CLIENT_CLOSED_REQUEST, APIError, internal_error
from chainrule.serving.requests import RequestBody
from chainrule.serving.responses import JsonObject

log = logging.getLogger("chainrule.serving")
DONE = "data: [DONE]\n\n"
T = TypeVar("T")


class StreamOptions(RequestBody):
    include_usage: bool | None = False
    include_obfuscation: bool | None = False


async def until_disconnect(request: Request, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled as soon as the client disconnects."""
    working = asyncio.ensure_future(work)
    disconnected = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait((working, disconnected), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise APIError(CLIENT_CLOSED_REQUEST, "the client has gone")
        return working.result()
    finally:
        working.cancel()
        disconnected.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def event_stream(
    request: Request,
    chunks: AsyncGenerator[JsonObject, None],
    usage: Callable[[], dict[str, int]],
    head: JsonObject,
    options: StreamOptions | None,
) -> StreamingResponse:
    """A stream of chunks that ends with [DONE]. `head` is common to all chunks, `usage` is called at the end."""
    wants_usage = bool(options and options.include_usage)
    no_usage: JsonObject = {"usage": None} if wants_usage else {}

    async def events() -> AsyncGenerator[str, None]:
        async with aclosing(chunks):
            async for chunk in chunks:
                yield event_text(chunk | no_usage)
        if wants_usage:
            yield event_text(head | {"choices": [], "usage": usage()})

    return await stream_response(request, events(), lambda error: event_text(error.to_json()), DONE)


async def stream_response(
    request: Request, events: AsyncGenerator[str, None], to_event: Callable[[APIError], str], last: str = ""
) -> StreamingResponse:
    """A response of these events, as `event_text` writes them, and `last` in the end.

    The first event is awaited here, so that a request that is refused gets a plain response with its status; an error
    after that becomes an event.
    """
    first = await until_disconnect(request, anext(events))

    async def guarded() -> AsyncIterator[str]:
        try:
            yield first
            async for event in events:
                yield event
        except UserError as error:
            yield to_event(APIError.from_user_error(error))
        except APIError as error:
            yield to_event(error)
        except Exception:
            log.exception("a stream broke off")
            yield to_event(internal_error())
        finally:
            await events.aclose()
        if last:
            yield last

    return StreamingResponse(guarded(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def event_text(value: JsonObject, name: str | None = None) -> str:
    """A server-sent event, with a name or without."""
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"event: {name}\ndata: {data}\n\n" if name else f"data: {data}\n\n"
