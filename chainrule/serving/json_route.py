"""Routes that read JSON: FastAPI's, with bodies of bounded size that are strict UTF-8.

Three things that FastAPI leaves to its applications: it reads a body of any size into memory, it decodes JSON by
`json.loads`, which also takes UTF-16 and lone surrogates, and it ignores JSON without the right Content-Type, which is
what `curl -d` sends.
"""

from collections.abc import Callable, Coroutine

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json

from chainrule.serving.errors import APIError

MOST_BYTES = 4 << 20  # of one request's body
CONTENT_TYPE = b"content-type"


class JsonRequest(Request):
    """A request whose body is JSON, whatever its Content-Type says."""

    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            body = bytearray()
            async for chunk in self.stream():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise too_large()
            self._body = bytes(body)
        return self._body

    async def json(self) -> object:
        try:
            return from_json(await self.body())
        except ValueError as error:
            message = f"the request is not the JSON object that is expected here: {str(error)[:200]}"
            raise APIError(400, message, "invalid_json") from None


class JsonRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[None, None, Response]]:
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            headers = [each for each in request.scope["headers"] if each[0] != CONTENT_TYPE]
            scope = {**request.scope, "headers": [*headers, (CONTENT_TYPE, b"application/json")]}
            return await handle(JsonRequest(scope, request.receive))

        return handle_json


def too_large() -> APIError:
    return APIError(413, f"the request's body is larger than {MOST_BYTES >> 20} MiB", "too_large")
