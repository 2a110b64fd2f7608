"""Requests as JSON: strict types, known fields only, and one sentence for what is wrong with them."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from chainrule.errors import did_you_mean
from chainrule.serving.guard import MOST_BYTES, too_large
from chainrule.serving.problems import Problem

MOST_TOKENS = 16384  # of one sample
MOST_STOP_CHARACTERS = 10_000
B = TypeVar("B", bound="Body")


class Body(BaseModel):
    """What a request may say. A field left out, and null where it is allowed, mean the default."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Temperature = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
Id = Annotated[int, Field(ge=0, le=2**31 - 1)]
Text = Annotated[str, Field(max_length=1_000_000)]
ModelName = Annotated[str | None, Field(max_length=4096, description="One of /v1/models; the first if left out.")]


class Filters(Body):
    """How a distribution is reshaped before a token is drawn."""

    temperature: Temperature = 1.0
    top_k: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    top_p: Fraction = 1.0
    min_p: Fraction = 0.0
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100, allow_inf_nan=False)] = 1.0

    @property
    def filters(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in Filters.model_fields}


async def read(request: Request, kind: type[B]) -> B:
    """The body of a request, checked."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise too_large()
    try:
        return kind.model_validate_json(bytes(body))
    except ValidationError as error:
        raise _told(error, kind) from None


def _told(error: ValidationError, kind: type[Body]) -> Problem:
    """The first thing that is wrong, in one sentence."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    names = [str(part)[:80] for part in first["loc"]]
    field = names[0] if names else None
    what = first["msg"][:1].lower() + first["msg"][1:200]
    if field is None:
        return Problem(400, f"the request is not the JSON object that is wanted here: {what}", "invalid_json")
    if first["type"] == "extra_forbidden" and len(names) == 1:
        known = kind.model_fields
        hint = did_you_mean(field, known)
        return Problem(400, f"unknown field '{field}'{hint} (there are: {', '.join(known)})", "unknown_field", field)
    found = [each for each in error.errors(include_url=False, include_input=False) if each["loc"][0] == first["loc"][0]]
    ways = " or ".join(dict.fromkeys(each["msg"][:1].lower() + each["msg"][1:200] for each in found[:4]))
    return Problem(400, f"the field '{field}' is wrong: {ways}", "invalid_value", field)


class Told(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class Error(BaseModel):
    """OpenAI's shape."""

    error: Told


STATUSES = {
    400: "What was asked is wrong.",
    401: "The key is missing or wrong.",
    404: "There is no such model.",
    413: "The body is too large.",
    429: "Too much is waiting; try again.",
    503: "The server is shutting down.",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Error, "description": said} for status, said in STATUSES.items()
}


def post(app: FastAPI, path: str, kind: type[B], summary: str, answers: type[BaseModel] | None = None) -> Any:
    """Declare a route whose body is `kind`; the function gets it checked, and the request."""

    def declare(function: Callable[[B, Request], Awaitable[Any]]) -> Any:
        async def route(request: Request) -> Any:
            return await function(await read(request, kind), request)

        schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
        BODIES.update(schema.pop("$defs", {}))
        app.post(
            path,
            summary=summary,
            name=function.__name__,
            response_model=answers,
            responses=ERRORS,
            openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}},
        )(route)
        return function

    return declare


BODIES: dict[str, Any] = {}  # schemas that those of bodies refer to


def describe(app: FastAPI) -> None:
    """Let /openapi.json say what bodies are made of."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        found = plain()
        found.setdefault("components", {}).setdefault("schemas", {}).update(BODIES)
        for path in found["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)  # what FastAPI would say; here it is 400
        return found

    app.openapi = openapi  # type: ignore[method-assign]
