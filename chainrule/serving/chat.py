"""/v1/chat/completions: a conversation written out as a transcript, which the model continues as the assistant.

Models trained on plain text know no roles, so each message is a paragraph that begins with who speaks; the answer ends
where the user would speak again.
"""

import time
from collections.abc import AsyncIterator
from secrets import token_hex
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from pydantic import Field

from chainrule.generation import Token
from chainrule.serving.ask import Asked, ask
from chainrule.serving.completions import MOST_LOGPROBS, Drawing, finite
from chainrule.serving.problems import Problem
from chainrule.serving.schema import MOST_TOKENS, Body, Text, post
from chainrule.serving.service import Service
from chainrule.serving.stream import events, first_of
from chainrule.serving.tokens import token_name
from chainrule.text.base import Tokenizer

SPEAKERS = {"system": "", "developer": "", "user": "User: ", "assistant": "Assistant: "}
ENDINGS = ("\nUser:", "\nAssistant:")
MOST_MESSAGES = 1000


class TextPart(Body):
    type: Literal["text"]
    text: Text


class Message(Body):
    role: Literal["system", "developer", "user", "assistant"]
    content: Text | Annotated[list[TextPart], Field(max_length=MOST_MESSAGES)]
    name: Annotated[str, Field(max_length=1000)] | None = None

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class Chat(Drawing):
    messages: Annotated[list[Message], Field(min_length=1, max_length=MOST_MESSAGES)]
    max_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = None
    logprobs: bool | None = False
    top_logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None


def transcript(messages: list[Message]) -> str:
    """'Be brief.\\n\\nUser: Hello\\nAssistant:'."""
    lines = [f"{SPEAKERS[each.role]}{each.text}{'' if SPEAKERS[each.role] else chr(10)}" for each in messages]
    return "\n".join([*lines, "Assistant:"])


def add_routes(app: FastAPI, service: Service) -> None:
    @post(app, "/v1/chat/completions", Chat, "Answer in a conversation.")
    async def converse(body: Chat, request: Request) -> Any:
        if body.top_logprobs is not None and not body.logprobs:
            raise Problem(400, "top_logprobs needs logprobs to be true", "invalid_value", "top_logprobs")
        served = service.library.find(body.model)
        wanted = body.max_completion_tokens or body.max_tokens or 256
        sampling = body.sampling(wanted, body.n, body.top_logprobs or 0, stop=ENDINGS)
        asked = ask(served, transcript(body.messages), sampling, False, 0)
        head = {"id": f"chatcmpl-{token_hex(12)}", "created": int(time.time()), "model": served.id}
        answer = Answer(head, body, served.tokenizer, asked)
        drawn = first_of(service, served, [asked])
        if body.stream:
            return await events(answer.pieces(drawn), answer.usage, answer.head, body.stream_options)
        async for _, tokens in drawn:
            answer.hear(tokens)
        return answer.whole()


class Answer:
    def __init__(self, head: dict[str, Any], body: Chat, tokenizer: Tokenizer, asked: Asked):
        self.body, self.tokenizer, self.asked = body, tokenizer, asked
        self.head = head | {"object": "chat.completion.chunk" if body.stream else "chat.completion"}
        self.tokens: list[list[Token]] = [[] for _ in range(body.n)]

    def hear(self, tokens: list[Token]) -> None:
        for token in tokens:
            self.tokens[token.sample].append(token)

    async def pieces(self, drawn: AsyncIterator[tuple[Asked, list[Token]]]) -> AsyncIterator[dict[str, Any]]:
        async for _, tokens in drawn:
            for token in tokens:
                is_first = not self.tokens[token.sample]
                self.tokens[token.sample].append(token)
                delta = ({"role": "assistant"} if is_first else {}) | {"content": _shown([token], is_first)}
                yield self.head | {"choices": [self._choice(token.sample, "delta", delta, [token])]}

    def whole(self) -> dict[str, Any]:
        choices = [
            self._choice(number, "message", {"role": "assistant", "content": _shown(tokens, True)}, tokens)
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


def _shown(tokens: list[Token], is_first: bool) -> str:
    """The space after 'Assistant:' belongs to the transcript, not to the answer."""
    text = "".join(token.text for token in tokens)
    return text.removeprefix(" ") if is_first else text
