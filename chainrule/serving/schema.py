"""Requests as JSON: strict types, known fields only, and one sentence for what is wrong with them."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from chainrule.errors import did_you_mean
from chainrule.serving.answers import Answer, answered
from chainrule.serving.guard import MOST_BYTES, too_large
from chainrule.serving.problems import Problem

MOST_TOKENS = 16384  # of one sample
MOST_CHARACTERS = 100_000  # of one text, and ids of one prompt: while it is cut into tokens, nothing else goes on
MOST_SHOWN = 20_000  # characters of a text, and ids, that is looked into rather than continued
MOST_MISTAKES = 100  # that are looked at one by one
B = TypeVar("B", bound="Body")


class Body(BaseModel):
    """What a request may say. A field left out, and null where it is allowed, mean the default."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Number = Annotated[float, Field(allow_inf_nan=False)]
Fraction = Annotated[Number, Field(ge=0, le=1)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
Id = Annotated[int, Field(ge=0, le=2**31 - 1)]
Ids = Annotated[list[Id], Field(max_length=MOST_CHARACTERS, fail_fast=True)]
SomeIds = Annotated[Ids, Field(min_length=1)]  # the end token begins a text, so there is always one
Text = Annotated[str, Field(max_length=MOST_CHARACTERS)]
ShownText = Annotated[str, Field(max_length=MOST_SHOWN)]
Looked = ShownText | Annotated[SomeIds, Field(max_length=MOST_SHOWN)]  # a prompt that is looked into
ModelName = Annotated[str | None, Field(max_length=4096, description="One of /v1/models; the first if left out.")]


class Filters(Body):
    """How a distribution is reshaped before a token is drawn."""

    temperature: Annotated[Number, Field(ge=0, le=100)] | None = 1.0
    top_k: Annotated[int, Field(ge=0, le=1_000_000)] | None = 0
    top_p: Fraction | None = 1.0
    min_p: Fraction | None = 0.0
    repetition_penalty: Annotated[Number, Field(ge=0.01, le=100)] | None = 1.0

    @property
    def filters(self) -> dict[str, Any]:
        given = {name: getattr(self, name) for name in Filters.model_fields}
        return {name: value for name, value in given.items() if value is not None}


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
    if error.error_count() > MOST_MISTAKES:
        return Problem(400, f"the request is wrong in {error.error_count():,} places", "invalid_value")
    mistakes = error.errors(include_url=False, include_context=False, include_input=False)
    first = mistakes[0]
    names = [str(part)[:80] for part in first["loc"]]
    if not names:
        what = _lower(first["msg"])
        return Problem(400, f"the request is not the JSON object that is wanted here: {what}", "invalid_json")
    field = names[0]
    if first["type"] == "extra_forbidden" and len(names) == 1:
        known = kind.model_fields
        hint = did_you_mean(field, known)
        return Problem(400, f"unknown field '{field}'{hint} (there are: {', '.join(known)})", "unknown_field", field)
    ways = dict.fromkeys(_lower(each["msg"]) for each in mistakes if each["loc"][0] == first["loc"][0])
    return Problem(400, f"the field '{field}' is wrong: {' or '.join(list(ways)[:4])}", "invalid_value", field)


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:200]


def post(
    app: FastAPI, path: str, kind: type[B], summary: str, answers: type[Answer] | None = None, streams: bool = False
) -> Callable[[Callable[[B, Request], Awaitable[Any]]], None]:
    """Declare a route whose body is `kind`; the function gets it checked, and the request."""

    def declare(function: Callable[[B, Request], Awaitable[Any]]) -> None:
        async def route(request: Request) -> Any:
            return await function(await read(request, kind), request)

        schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
        BODIES.update(schema.pop("$defs", {}))
        app.post(
            path,
            summary=summary,
            name=function.__name__,
            response_model=None,
            responses=answered(answers, streams),
            openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}},
        )(route)

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
