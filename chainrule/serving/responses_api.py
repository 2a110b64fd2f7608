"""/v1/responses: a conversation in OpenAI's later form. The text is that of /v1/chat/completions."""

import asyncio
from typing import Annotated, ClassVar, Literal

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.responses import Response as HTTPResponse
from pydantic import Field, JsonValue

from chainrule.generation import Sampling
from chainrule.generation.conversation import chat_of
from chainrule.serving.chat import MOST_MESSAGES, encode_messages
from chainrule.serving.generate import stream_tokens
from chainrule.serving.openai_fields import Label, UnusedResponseFields
from chainrule.serving.prompts import make_request
from chainrule.serving.requests import MOST_TOKENS, ModelName, SamplingFilters, Seed, Text, TypedBody
from chainrule.serving.response_events import ResponseBuilder
from chainrule.serving.responses import Response, declare
from chainrule.serving.service import Service
from chainrule.serving.streaming import StreamOptions, stream_response, until_disconnect
from chainrule.serving.unsupported import Accepts
from chainrule.text.chat import Message

DEFAULT_TOKENS = 256


class InputPart(TypedBody):
    """A text that was said, or that a model wrote in an earlier response."""

    types: ClassVar = ("input_text", "output_text")
    type: Literal["input_text", "output_text"]
    text: Text
    annotations: Annotated[JsonValue, Accepts([])] = None
    logprobs: Annotated[JsonValue, Accepts([])] = None


class InputMessage(TypedBody):
    types: ClassVar = ("message",)
    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Text | Annotated[list[InputPart], Field(max_length=MOST_MESSAGES, fail_fast=True)]
    id: Label | None = Field(None, description="Ignored.")
    phase: Label | None = Field(None, description="Ignored.")
    status: Label | None = Field(None, description="Ignored.")

    def to_message(self) -> Message:
        text = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return Message("system" if self.role == "developer" else self.role, text)


class ResponseRequest(SamplingFilters, UnusedResponseFields):
    model: ModelName = None
    input: Text | Annotated[list[InputMessage], Field(min_length=1, max_length=MOST_MESSAGES, fail_fast=True)]
    instructions: Text | None = Field(None, description="What the system says, before the input.")
    max_output_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = Field(None, description="256 if left out.")
    seed: Seed | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None

    @property
    def messages(self) -> list[Message]:
        given = [Message("user", self.input)] if isinstance(self.input, str) else [m.to_message() for m in self.input]
        return given if self.instructions is None else [Message("system", self.instructions), *given]

    def sampling(self, stops: tuple[str, ...]) -> Sampling:
        max_tokens = self.max_output_tokens or DEFAULT_TOKENS
        return Sampling(**self.filters, max_tokens=max_tokens, seed=self.seed, stop=stops).seeded()


def add_routes(app: FastAPI, service: Service) -> None:
    @app.post(
        "/v1/responses",
        summary="Answer in a conversation, in the form of OpenAI's Responses API.",
        response_model=None,
        responses=declare(Response, streams=True),
    )
    async def respond(body: ResponseRequest, request: Request) -> HTTPResponse:
        served = service.models.language_model(body.model)
        style = chat_of(served.tokenizer).written
        prompt = await asyncio.to_thread(encode_messages, served, body.messages, "input")
        prompt_request = make_request(served, prompt, body.sampling(style.stops))
        builder = ResponseBuilder(served.id, style, body, len(prompt_request.ids))
        tokens = stream_tokens(service, served, [prompt_request])
        if body.stream:
            return await stream_response(request, builder.events(tokens), builder.error_event)
        return JSONResponse(await until_disconnect(request, builder.response(tokens)))
