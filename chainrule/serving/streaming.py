"""Responses as server-sent events, and giving up work whose client has gone."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
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
    """A stream of chunks that ends with [DONE]. `head` is common to all chunks, `usage` is called at the end.

    The first chunk is awaited here, so that a request that is refused gets a plain response with its status.
    """
    first = await until_disconnect(request, anext(chunks))
    wants_usage = bool(options and options.include_usage)
    no_usage: JsonObject = {"usage": None} if wants_usage else {}

    async def events() -> AsyncIterator[str]:
        try:
            yield _event(first | no_usage)
            async for chunk in chunks:
                yield _event(chunk | no_usage)
            if wants_usage:
                yield _event(head | {"choices": [], "usage": usage()})
        except UserError as error:
            yield _event(APIError.from_user_error(error).to_json())
        except APIError as error:
            yield _event(error.to_json())
        except Exception:
            log.exception("a stream broke off")
            yield _event(internal_error().to_json())
        finally:
            await chunks.aclose()
        yield DONE

    return StreamingResponse(events(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def _event(value: object) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}\n\n"
