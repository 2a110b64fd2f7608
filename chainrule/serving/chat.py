"""/v1/chat/completions: a conversation, which the model continues as the assistant.

Models trained on plain text know no roles: for them each message is a paragraph that begins with the speaker's role,
and the answer ends where the user would speak again. Models that were trained on conversations have a chat style.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from secrets import token_hex
from typing import Annotated, ClassVar, Literal, Self

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from chainrule.errors import UserError
from chainrule.generation import Token
from chainrule.generation.conversation import AnswerText, chat_of, encode_conversation, render_conversation
from chainrule.generation.prompt import Prompt
from chainrule.serving.completion_choices import finite
from chainrule.serving.completions import MOST_LOGPROBS, GenerationRequest
from chainrule.serving.errors import APIError
from chainrule.serving.generate import TokenStream, stream_tokens
from chainrule.serving.model_provider import ServedModel
from chainrule.serving.openai_fields import UnusedChatFields, UnusedMessageFields
from chainrule.serving.prompts import CONTEXT_LENGTH_EXCEEDED, PromptRequest, make_request
from chainrule.serving.requests import MOST_CHARACTERS, MOST_TOKENS, RequestBody, Text, TypedBody
from chainrule.serving.responses import ChatResponse, JsonObject, declare
from chainrule.serving.service import Service
from chainrule.serving.streaming import event_stream, until_disconnect
from chainrule.serving.structured import (
    CALL,
    MOST_TOOLS,
    Name,
    ToolCalling,
    ToolChoice,
    Tools,
    check_structure,
    tool_calling,
)
from chainrule.serving.tokens import token_name
from chainrule.text.base import Tokenizer
from chainrule.text.chat import Message

MOST_MESSAGES = 1000


class TextPart(TypedBody):
    types: ClassVar = ("text",)
    type: Literal["text"]
    text: Text


class FormerFunction(RequestBody):
    name: Name
    arguments: Text


class FormerCall(RequestBody):
    """A call that the assistant made earlier in the conversation."""

    id: Annotated[str, Field(max_length=1000)]
    type: Literal["function"] = "function"
    function: FormerFunction


ONLY_ASSISTANTS_SAY_NOTHING: JsonObject = {  # of a message, for /openapi.json
    "anyOf": [
        {"properties": {"role": {"const": "assistant"}}},
        {"properties": {"content": {"type": ["string", "array"]}}, "required": ["content"]},
    ]
}


class RequestMessage(UnusedMessageFields):
    model_config = ConfigDict(json_schema_extra=ONLY_ASSISTANTS_SAY_NOTHING)  # type: ignore[typeddict-item]

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Text | Annotated[list[TextPart], Field(max_length=MOST_MESSAGES, fail_fast=True)] | None = None
    name: Annotated[str, Field(max_length=1000)] | None = None
    tool_calls: Annotated[list[FormerCall], Field(max_length=MOST_TOOLS, fail_fast=True)] | None = None
    tool_call_id: Annotated[str, Field(max_length=1000)] | None = None

    @model_validator(mode="after")
    def _check_content(self) -> Self:
        if self.content is None and self.role != "assistant":
            raise PydanticCustomError("no_content", "a message of the {role} has no content", {"role": self.role})
        return self

    def to_message(self) -> Message:
        """Calls of tools are written as they were answered, and what a tool says as the words of the user."""
        text = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content or ())
        for each in self.tool_calls or ():
            text += CALL.format(name=each.function.name) + each.function.arguments + "}"
        return Message({"developer": "system", "tool": "user"}.get(self.role, self.role), text)


class ChatRequest(GenerationRequest, UnusedChatFields):
    messages: Annotated[list[RequestMessage], Field(min_length=1, max_length=MOST_MESSAGES, fail_fast=True)]
    max_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = None
    logprobs: bool | None = False
    top_logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None
    tools: Tools | None = None
    tool_choice: ToolChoice | None = Field(
        None, description="auto, which may call a tool or answer in words; required, a function, or none."
    )
    parallel_tool_calls: bool | None = Field(None, description="Ignored: an answer calls one tool.")
    continue_final_message: bool | None = Field(
        False, description="The last message is how the assistant's answer begins; what follows it is the answer."
    )
    add_generation_prompt: bool | None = Field(None, description="The opposite of continue_final_message, as in vLLM.")

    @property
    def continues_last(self) -> bool:
        return bool(self.continue_final_message)


def add_routes(app: FastAPI, service: Service) -> None:
    @app.post(
        "/v1/chat/completions",
        summary="Answer in a conversation.",
        response_model=None,
        responses=declare(ChatResponse, streams=True),
    )
    async def chat(body: ChatRequest, request: Request) -> Response:
        if body.top_logprobs is not None and not body.logprobs:
            raise APIError(400, "top_logprobs needs logprobs to be true", "invalid_value", "top_logprobs")
        check_continuation(body)
        served = service.models.language_model(body.model)
        style = chat_of(served.tokenizer).written
        max_tokens = body.max_completion_tokens or body.max_tokens or 256
        sampling = body.sampling(max_tokens, body.num_choices, body.top_logprobs or 0, stop=style.stops)
        messages = [each.to_message() for each in body.messages]
        calling = tool_calling(body.tools, body.tool_choice)
        if calling is not None:
            sampling, messages = replace(sampling, **calling.constraint), calling.introduce(messages)
        field = "response_format" if calling is None else "tools"
        await asyncio.to_thread(check_structure, served.tokenizer, sampling, field)
        prompt = await asyncio.to_thread(encode_messages, served, messages, continues_last=body.continues_last)
        prompt_request = make_request(served, prompt, sampling)
        builder = ChatBuilder(served, body, prompt_request, calling)
        tokens = stream_tokens(service, served, [prompt_request])
        if body.stream:
            return await event_stream(request, builder.chunks(tokens), builder.usage, builder.head, body.stream_options)
        return await until_disconnect(request, builder.response(tokens))


def check_continuation(body: ChatRequest) -> None:
    """Refuse to continue what is no beginning of an answer in words."""
    field, last = "continue_final_message", body.messages[-1]
    if body.add_generation_prompt is not None and body.add_generation_prompt == body.continues_last:
        sentence = f"add_generation_prompt must be the opposite of {field}; leave it out"
        raise APIError(400, sentence, "invalid_value", "add_generation_prompt")
    if body.continues_last and (last.role != "assistant" or last.tool_calls):
        raise APIError(400, f"{field} needs a last message of the assistant, in words", "invalid_value", field)
    has_format = body.response_format is not None and body.response_format.type != "text"
    if body.continues_last and (body.tools or has_format):
        sentence = f"{field} is for answers in words; leave out tools and response_format"
        raise APIError(400, sentence, "invalid_value", field)


def encode_messages(
    served: ServedModel, messages: list[Message], field: str = "messages", continues_last: bool = False
) -> Prompt:
    """The prompt of a conversation, which was given in this field of a request."""
    length = len(render_conversation(served.tokenizer, messages, continues_last))
    if length > MOST_CHARACTERS:
        sentence = f"the messages have {length:,} characters together; {MOST_CHARACTERS:,} are allowed"
        raise APIError(400, sentence, "invalid_value", field)
    try:
        return encode_conversation(served.model, served.tokenizer, messages, continues_last)
    except UserError as error:
        raise APIError.from_user_error(error, CONTEXT_LENGTH_EXCEEDED, field) from None


class ChatBuilder:
    """The choices of one request, as a whole response or as chunks."""

    def __init__(
        self, served: ServedModel, body: ChatRequest, request: PromptRequest, calling: ToolCalling | None = None
    ):
        self.body, self.request, self.calling = body, request, calling
        self.tokenizer: Tokenizer = served.tokenizer
        has_begun = body.continues_last and body.messages[-1].content
        self.displayed = str if has_begun else chat_of(self.tokenizer).written.shown  # how the first text is shown
        self.head: JsonObject = {
            "id": f"chatcmpl-{token_hex(12)}",
            "created": int(time.time()),
            "model": served.id,
            "object": "chat.completion.chunk" if body.stream else "chat.completion",
        }
        self.tokens: list[list[Token]] = [[] for _ in range(body.num_choices)]
        self.openings = [""] * body.num_choices  # of the answers, up to where they have a letter or sign

    async def chunks(self, stream: TokenStream) -> AsyncGenerator[JsonObject, None]:
        shown = [AnswerText(self.displayed) for _ in self.tokens]
        async with aclosing(stream):
            async for _, new in stream:
                for token in new:
                    tokens = self.tokens[token.sample]
                    delta: JsonObject = {} if tokens else {"role": "assistant"}
                    self._append(token)
                    text = shown[token.sample].feed(token.text)
                    delta |= self._call_delta(tokens) if self._is_call(token.sample) else {"content": text}
                    yield self.head | {"choices": [self._choice(token.sample, "delta", delta, [token])]}

    async def response(self, stream: TokenStream) -> JSONResponse:
        async for _, new in stream:
            for token in new:
                self._append(token)
        return await asyncio.to_thread(lambda: JSONResponse(self._body()))  # with log-probabilities, it may be long

    def _append(self, token: Token) -> None:
        self.tokens[token.sample].append(token)
        if not self.openings[token.sample].strip():
            self.openings[token.sample] += token.text

    def _body(self) -> JsonObject:
        choices = []
        for index, tokens in enumerate(self.tokens):
            choices.append(self._choice(index, "message", {"role": "assistant", **self._answer(index)}, tokens))
        return self.head | {"choices": choices, "usage": self.usage()}

    def _answer(self, index: int) -> JsonObject:
        """The content of a whole answer, or the call that it makes."""
        text = self.displayed("".join(token.text for token in self.tokens[index]))
        if self.calling is None or not self._is_call(index):
            return {"content": text}
        return {"content": None, "tool_calls": self.calling.calls(text)}

    def _is_call(self, index: int) -> bool:
        """Whether an answer is a call of a tool, as far as it goes."""
        return self.calling is not None and self.calling.is_call(self.displayed(self.openings[index]))

    def _call_delta(self, tokens: list[Token]) -> JsonObject:
        """A call is streamed as a whole, with the last token: before that, its function may not be known."""
        assert self.calling is not None
        if tokens[-1].finish_reason is None:
            return {}
        calls = self.calling.calls(self.displayed("".join(token.text for token in tokens)))
        return {"tool_calls": [{"index": index} | call for index, call in enumerate(calls)]}

    def _finish_reason(self, index: int) -> str | None:
        """OpenAI's: a call ends with tool_calls, one of the function that the request named with stop."""
        reason = self.tokens[index][-1].finish_reason
        if reason not in ("eos", "stop"):
            return reason
        is_named = self.calling is not None and self.calling.is_named
        return "tool_calls" if self._is_call(index) and not is_named else "stop"

    def _choice(self, index: int, name: str, message: JsonObject, tokens: list[Token]) -> JsonObject:
        """A choice whose `message`, or `delta` of it, is in the field `name`."""
        logprobs = {"content": [self._token_logprobs(token) for token in tokens]} if self.body.logprobs else None
        return {
            "index": index,
            name: message,
            "logprobs": logprobs,
            "finish_reason": self._finish_reason(index),
        }

    def _token_logprobs(self, token: Token) -> JsonObject:
        top = [self._logprob(*each) for each in token.alternatives]
        return self._logprob(token.id, token.log_probability) | {"top_logprobs": top}

    def _logprob(self, id: int, log_probability: float) -> JsonObject:
        data = list(self.tokenizer.token_bytes[id])
        return {"token": token_name(self.tokenizer, id), "logprob": finite(log_probability), "bytes": data}

    def usage(self) -> dict[str, int]:
        prompt, completion = len(self.request.ids), sum(map(len, self.tokens))
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
