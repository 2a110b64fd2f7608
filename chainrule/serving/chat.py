"""/v1/chat/completions: a conversation, written as the model knows it, which it continues as the assistant.

Models trained on plain text know no roles, so each message is a paragraph that begins with who speaks; the answer ends
where the user would speak again. Imported models that know roles have a style of their own.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from secrets import token_hex
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from chainrule.errors import UserError
from chainrule.generation import Token
from chainrule.generation.conversation import chat_of, read_conversation, write_conversation
from chainrule.generation.prompt import Prompt
from chainrule.serving.answers import ChatAnswer
from chainrule.serving.ask import Drawn, PromptRequest, ask
from chainrule.serving.completions import MOST_LOGPROBS, Drawing, finite
from chainrule.serving.library import ServedModel
from chainrule.serving.problems import Problem
from chainrule.serving.schema import MOST_CHARACTERS, MOST_TOKENS, Body, Text, post
from chainrule.serving.service import Service
from chainrule.serving.stream import draw_counted, events, while_heard
from chainrule.serving.tokens import token_name
from chainrule.text.base import Tokenizer
from chainrule.text.chat import Message as Said

MOST_MESSAGES = 1000


class TextPart(Body):
    type: Literal["text"]
    text: Text


class Message(Body):
    role: Literal["system", "developer", "user", "assistant"]
    content: Text | Annotated[list[TextPart], Field(max_length=MOST_MESSAGES, fail_fast=True)]
    name: Annotated[str, Field(max_length=1000)] | None = None

    @property
    def said(self) -> Said:
        text = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return Said("system" if self.role == "developer" else self.role, text)


class Chat(Drawing):
    messages: Annotated[list[Message], Field(min_length=1, max_length=MOST_MESSAGES, fail_fast=True)]
    max_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = None
    logprobs: bool | None = False
    top_logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None


def add_routes(app: FastAPI, service: Service) -> None:
    @post(app, "/v1/chat/completions", Chat, "Answer in a conversation.", ChatAnswer, streams=True)
    async def converse(body: Chat, request: Request) -> Any:
        if body.top_logprobs is not None and not body.logprobs:
            raise Problem(400, "top_logprobs needs logprobs to be true", "invalid_value", "top_logprobs")
        served = service.library.language(body.model)
        style = chat_of(served.tokenizer).written
        max_tokens = body.max_completion_tokens or body.max_tokens or 256
        sampling = body.sampling(max_tokens, body.wanted, body.top_logprobs or 0, stop=style.stops)
        prompt = await asyncio.to_thread(_read, served, [each.said for each in body.messages])
        asked = ask(served, prompt, sampling)
        head = {"id": f"chatcmpl-{token_hex(12)}", "created": int(time.time()), "model": served.id}
        answer = Answer(head, body, served.tokenizer, asked)
        drawn = draw_counted(service, served, [asked])
        if body.stream:
            return await events(request, answer.pieces(drawn), answer.usage, answer.head, body.stream_options)
        return await while_heard(request, answer.whole(drawn))


def _read(served: ServedModel, messages: list[Said]) -> Prompt:
    length = len(write_conversation(served.tokenizer, messages))
    if length > MOST_CHARACTERS:
        what = f"the messages have {length:,} characters together; {MOST_CHARACTERS:,} are allowed"
        raise Problem(400, what, "invalid_value", "messages")
    try:
        return read_conversation(served.model, served.tokenizer, messages)
    except UserError as error:
        what = str(error).replace(" or pass --truncate", "")
        raise Problem(400, what, "context_length_exceeded", "messages") from None


class Answer:
    """The choices of one request, told whole or piece by piece."""

    def __init__(self, head: dict[str, Any], body: Chat, tokenizer: Tokenizer, asked: PromptRequest):
        self.body, self.tokenizer, self.asked = body, tokenizer, asked
        self.shown = chat_of(tokenizer).written.shown
        self.head = head | {"object": "chat.completion.chunk" if body.stream else "chat.completion"}
        self.tokens: list[list[Token]] = [[] for _ in range(body.wanted)]

    async def pieces(self, drawn: Drawn) -> AsyncGenerator[dict[str, Any], None]:
        has_begun = [False] * len(self.tokens)
        async with aclosing(drawn):
            async for _, new in drawn:
                for token in new:
                    tokens = self.tokens[token.sample]
                    delta = {} if tokens else {"role": "assistant"}
                    tokens.append(token)
                    delta["content"] = token.text if has_begun[token.sample] else self.shown(token.text)
                    has_begun[token.sample] |= bool(token.text)
                    yield self.head | {"choices": [self._choice(token.sample, "delta", delta, [token])]}

    async def whole(self, drawn: Drawn) -> JSONResponse:
        async for _, new in drawn:
            for token in new:
                self.tokens[token.sample].append(token)
        return await asyncio.to_thread(lambda: JSONResponse(self._all()))  # with log-probabilities, it may be long

    def _all(self) -> dict[str, Any]:
        said = [self.shown("".join(token.text for token in tokens)) for tokens in self.tokens]
        choices = [
            self._choice(number, "message", {"role": "assistant", "content": said[number]}, tokens)
            for number, tokens in enumerate(self.tokens)
        ]
        return self.head | {"choices": choices, "usage": self.usage()}

    def _choice(self, number: int, name: str, said: dict[str, Any], tokens: list[Token]) -> dict[str, Any]:
        reason = tokens[-1].finish_reason
        logprobs = {"content": [self._logprob(token) for token in tokens]} if self.body.logprobs else None
        return {
            "index": number,
            name: said,
            "logprobs": logprobs,
            "finish_reason": "stop" if reason == "eos" else reason,
        }

    def _logprob(self, token: Token) -> dict[str, Any]:
        others = [self._figure(*each) for each in token.alternatives]
        return self._figure(token.id, token.log_probability) | {"top_logprobs": others}

    def _figure(self, id: int, log_probability: float) -> dict[str, Any]:
        data = list(self.tokenizer.token_bytes[id])
        return {"token": token_name(self.tokenizer, id), "logprob": finite(log_probability), "bytes": data}

    def usage(self) -> dict[str, int]:
        prompt, completion = len(self.asked.ids), sum(map(len, self.tokens))
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
