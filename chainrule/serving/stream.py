"""Answers piece by piece, as server-sent events; and what is counted of every answer."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import StreamingResponse

from chainrule.errors import UserError
from chainrule.serving.ask import Drawn, PromptRequest, draw
from chainrule.serving.library import ServedModel
from chainrule.serving.problems import GONE, Problem, bug
from chainrule.serving.schema import Body
from chainrule.serving.service import Service

log = logging.getLogger("chainrule.serving")
DONE = "data: [DONE]\n\n"
T = TypeVar("T")


class StreamOptions(Body):
    include_usage: bool | None = False
    include_obfuscation: bool | None = False


async def draw_counted(service: Service, served: ServedModel, asked: Sequence[PromptRequest]) -> Drawn:
    """`draw`, counted: prompts, tokens, and how long the first took."""
    began, is_first = time.perf_counter(), True
    service.metrics.prompt_tokens.labels(served.id).inc(sum(len(each.ids) for each in asked))
    async with aclosing(draw(service, asked)) as drawn:
        async for each, tokens in drawn:
            if is_first:
                service.metrics.first_token.labels(served.id).observe(time.perf_counter() - began)
                is_first = False
            service.metrics.generated_tokens.labels(served.id).inc(len(tokens))
            yield each, tokens


async def while_heard(request: Request, work: Awaitable[T]) -> T:
    """What comes of `work`, which is given up as soon as whoever asked has gone."""
    working = asyncio.ensure_future(work)
    going = asyncio.ensure_future(_goes(request))
    try:
        await asyncio.wait((working, going), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Problem(GONE, "the client has gone")
        return working.result()
    finally:
        working.cancel()
        going.cancel()


async def _goes(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def events(
    request: Request,
    pieces: AsyncGenerator[dict[str, Any], None],
    usage: Callable[[], dict[str, int]],
    head: dict[str, Any],
    options: StreamOptions | None,
) -> StreamingResponse:
    """The first piece is waited for, so that what is refused is still a plain answer with its status."""
    first = await while_heard(request, anext(pieces))
    wants_usage = bool(options and options.include_usage)

    async def told() -> AsyncIterator[str]:
        try:
            yield _event(first | ({"usage": None} if wants_usage else {}))
            async for piece in pieces:
                yield _event(piece | ({"usage": None} if wants_usage else {}))
            if wants_usage:
                yield _event(head | {"choices": [], "usage": usage()})
        except UserError as error:
            yield _event(Problem(400, str(error)).to_json())
        except Problem as problem:
            yield _event(problem.to_json())
        except Exception:
            log.exception("a stream broke off")
            yield _event(bug().to_json())
        finally:
            await pieces.aclose()
        yield DONE

    return StreamingResponse(told(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def _event(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}\n\n"
