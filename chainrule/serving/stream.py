"""Answers piece by piece, as server-sent events; and what is counted of every answer."""

import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from fastapi.responses import StreamingResponse

from chainrule.errors import UserError
from chainrule.generation import Token
from chainrule.serving.ask import Asked, draw
from chainrule.serving.library import Served
from chainrule.serving.problems import Problem
from chainrule.serving.schema import Body
from chainrule.serving.service import Service

DONE = "data: [DONE]\n\n"


class StreamOptions(Body):
    include_usage: bool | None = False
    include_obfuscation: bool | None = False


async def first_of(
    service: Service, served: Served, asked: Sequence[Asked]
) -> AsyncIterator[tuple[Asked, list[Token]]]:
    """`draw`, counted: prompts, tokens, and how long the first took."""
    began, is_first = time.perf_counter(), True
    service.metrics.prompt_tokens.labels(served.id).inc(sum(len(each.ids) for each in asked))
    async for each, tokens in draw(service, asked):
        if is_first:
            service.metrics.first_token.labels(served.id).observe(time.perf_counter() - began)
            is_first = False
        service.metrics.generated_tokens.labels(served.id).inc(len(tokens))
        yield each, tokens


async def events(
    pieces: AsyncIterator[dict[str, Any]],
    usage: Callable[[], dict[str, int]],
    head: dict[str, Any],
    options: StreamOptions | None,
) -> StreamingResponse:
    """The first piece is waited for, so that what is refused is still a plain answer with its status."""
    first = await anext(pieces, None)
    wants_usage = bool(options and options.include_usage)

    async def told() -> AsyncIterator[str]:
        try:
            if first is not None:
                yield _event(first | ({"usage": None} if wants_usage else {}))
            async for piece in pieces:
                yield _event(piece | ({"usage": None} if wants_usage else {}))
            if wants_usage:
                yield _event(head | {"choices": [], "usage": usage()})
        except UserError as error:
            yield _event(Problem(400, str(error)).to_json())
        except Problem as problem:
            yield _event(problem.to_json())
        finally:
            await pieces.aclose()  # type: ignore[attr-defined]
        yield DONE

    return StreamingResponse(told(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def _event(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}\n\n"
