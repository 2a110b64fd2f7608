"""The response of /v1/responses, built from tokens: as a whole, or as the events of a stream."""

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from secrets import token_hex
from typing import Protocol

from chainrule.generation import Token
from chainrule.serving.errors import APIError
from chainrule.serving.generate import TokenStream
from chainrule.serving.responses import JsonObject
from chainrule.serving.streaming import event_text
from chainrule.text.chat import Style


class ResponseOptions(Protocol):
    """The fields of a `ResponseRequest` that its response repeats."""

    @property
    def instructions(self) -> str | None: ...
    @property
    def max_output_tokens(self) -> int | None: ...
    @property
    def metadata(self) -> dict[str, str] | None: ...
    @property
    def parallel_tool_calls(self) -> bool | None: ...
    @property
    def temperature(self) -> float | None: ...
    @property
    def top_p(self) -> float | None: ...


class ResponseBuilder:
    """One response, which is one message of one text."""

    def __init__(self, model: str, style: Style, body: ResponseOptions, prompt_length: int):
        self.style, self.prompt_length = style, prompt_length
        self.tokens: list[Token] = []
        self.message_id = f"msg_{token_hex(16)}"
        self.sequence_number = 0
        self.head: JsonObject = {
            "id": f"resp_{token_hex(16)}",
            "object": "response",
            "created_at": int(time.time()),
            "error": None,
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "metadata": body.metadata or {},
            "model": model,
            "parallel_tool_calls": body.parallel_tool_calls is not False,
            "previous_response_id": None,
            "store": False,
            "temperature": 1.0 if body.temperature is None else body.temperature,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0 if body.top_p is None else body.top_p,
            "truncation": "disabled",
        }

    async def response(self, stream: TokenStream) -> JsonObject:
        async for _, new in stream:
            self.tokens += new
        return self._response()

    async def events(self, stream: TokenStream) -> AsyncGenerator[str, None]:
        """The events in the order in which OpenAI sends them; each has a number."""
        has_text = False
        async with aclosing(stream):
            async for _, new in stream:
                if not self.tokens:
                    for event in self._opening():
                        yield event
                self.tokens += new
                text = "".join(token.text for token in new)
                if text:
                    delta = text if has_text else self.style.shown(text)
                    has_text = True
                    yield self._event("response.output_text.delta", **self._place, delta=delta, logprobs=[])
        for event in self._closing():
            yield event

    def _opening(self) -> Iterator[str]:
        begun = self.head | {"status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)
        yield self._event("response.output_item.added", output_index=0, item=self._message("in_progress", []))
        yield self._event("response.content_part.added", **self._place, part=self._part(""))

    def _closing(self) -> Iterator[str]:
        text = self._text
        yield self._event("response.output_text.done", **self._place, text=text, logprobs=[])
        yield self._event("response.content_part.done", **self._place, part=self._part(text))
        message = self._message(self._status, [self._part(text)])
        yield self._event("response.output_item.done", output_index=0, item=message)
        yield self._event(f"response.{self._status}", response=self._response())

    def error_event(self, error: APIError) -> str:
        return self._event("error", code=error.code, message=error.detail, param=error.param)

    def _event(self, type: str, **fields: object) -> str:
        number, self.sequence_number = self.sequence_number, self.sequence_number + 1
        return event_text({"type": type, "sequence_number": number, **fields}, type)

    @property
    def _place(self) -> JsonObject:
        """Where the text stands in the response."""
        return {"item_id": self.message_id, "output_index": 0, "content_index": 0}

    @property
    def _text(self) -> str:
        return self.style.shown("".join(token.text for token in self.tokens))

    @property
    def _status(self) -> str:
        return "incomplete" if self.tokens[-1].finish_reason == "length" else "completed"

    def _part(self, text: str) -> JsonObject:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}

    def _message(self, status: str, content: list[JsonObject]) -> JsonObject:
        head: JsonObject = {"id": self.message_id, "type": "message", "status": status}
        return head | {"role": "assistant", "content": content}

    def _response(self) -> JsonObject:
        status = self._status
        details = {"reason": "max_output_tokens"} if status == "incomplete" else None
        read, written = self.prompt_length, len(self.tokens)
        usage = {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": read + written,
        }
        output = [self._message(status, [self._part(self._text)])]
        return self.head | {"status": status, "incomplete_details": details, "output": output, "usage": usage}
