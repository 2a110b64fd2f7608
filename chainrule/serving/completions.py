"""/v1/completions: OpenAI's oldest and most exact way to ask, with every log-probability on request."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from secrets import token_hex
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from chainrule.generation import Sampling, Token
from chainrule.serving.answers import CompletionAnswer
from chainrule.serving.ask import Drawn, Likely, PromptRequest, ask
from chainrule.serving.library import ServedModel
from chainrule.serving.problems import Problem
from chainrule.serving.schema import MOST_TOKENS, Filters, ModelName, Number, Seed, SomeIds, Text, post
from chainrule.serving.service import Service
from chainrule.serving.stream import StreamOptions, draw_counted, events, while_heard
from chainrule.serving.tokens import token_name
from chainrule.text.base import Tokenizer

MOST_PROMPTS = 256
MOST_SAMPLES = 64
MOST_LOGPROBS = 20
NEVER = -9999.0  # JSON has no -inf
MOST_STOPS = 1000
MOST_STOP_CHARACTERS = 10_000  # of all stop strings together
Stop = Annotated[str, Field(max_length=200)]  # all beginnings of one are kept for every sample
Zero = Annotated[Number, Field(ge=0, le=0)]


class Drawing(Filters):
    """What completions and chats share."""

    model: ModelName = None
    n: Annotated[int, Field(ge=1, le=MOST_SAMPLES)] | None = 1
    seed: Seed | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=MOST_STOPS, fail_fast=True)] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    user: Annotated[str, Field(max_length=1000)] | None = Field(None, description="Ignored.")
    presence_penalty: Zero | None = Field(0, description="Not supported; use repetition_penalty.")
    frequency_penalty: Zero | None = Field(0, description="Not supported; use repetition_penalty.")
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = Field(None, description="Not supported.")

    @property
    def wanted(self) -> int:
        return self.n or 1

    def sampling(self, max_tokens: int, samples: int, alternatives: int, stop: tuple[str, ...] = ()) -> Sampling:
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        length = sum(map(len, given))
        if length > MOST_STOP_CHARACTERS:
            what = f"stop strings have {length:,} characters together; {MOST_STOP_CHARACTERS:,} are allowed"
            raise Problem(400, what, "invalid_value", "stop")
        return Sampling(
            **self.filters,
            max_tokens=max_tokens,
            samples=samples,
            seed=self.seed,
            stop=(*(each for each in given if each), *stop),
            alternatives=alternatives,
        ).seeded()


class Completion(Drawing):
    prompt: (
        Text
        | SomeIds
        | Annotated[list[Text], Field(min_length=1, max_length=MOST_PROMPTS, fail_fast=True)]
        | Annotated[list[SomeIds], Field(min_length=1, max_length=MOST_PROMPTS, fail_fast=True)]
    ) = Field("", description="Text, texts, ids, or lists of ids. Ids are read as they are, nothing is put in front.")
    max_tokens: Annotated[int, Field(ge=0, le=MOST_TOKENS)] | None = 16
    best_of: Annotated[int, Field(ge=1, le=MOST_SAMPLES)] | None = None
    echo: bool | None = False
    logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None
    suffix: str | None = Field(None, max_length=1_000_000, description="Not supported: models here read left to right.")
    return_token_ids: bool = Field(False, description="Add `token_ids` and `prompt_token_ids` to every choice.")

    @property
    def prompts(self) -> list[Any]:
        is_one = isinstance(self.prompt, str) or isinstance(self.prompt[0], int)
        return [self.prompt] if is_one else self.prompt  # type: ignore[return-value]

    @property
    def samples(self) -> int:
        return max(self.wanted, self.best_of or 1)


def add_routes(app: FastAPI, service: Service) -> None:
    @post(app, "/v1/completions", Completion, "Continue some text.", CompletionAnswer, streams=True)
    async def complete(body: Completion, request: Request) -> Any:
        _refuse(body)
        served = service.library.language(body.model)
        asked = await asyncio.to_thread(lambda: [_ask(body, served, prompt) for prompt in body.prompts])
        head = {"id": f"cmpl-{token_hex(12)}", "object": "text_completion", "created": int(time.time())}
        answer = Answer(head | {"model": served.id}, body, served.tokenizer, asked)
        drawn = draw_counted(service, served, asked)
        if body.stream:
            return await events(request, answer.pieces(drawn), answer.usage, answer.head, body.stream_options)
        return await while_heard(request, answer.whole(drawn))


def _refuse(body: Completion) -> None:
    if body.suffix:
        raise Problem(400, "suffix is not supported: models here read from left to right", "unsupported", "suffix")
    if body.best_of is not None and body.best_of < body.wanted:
        what = f"best_of must be at least n, got {body.best_of} and {body.wanted}"
        raise Problem(400, what, "invalid_value", "best_of")
    if body.stream and body.samples > body.wanted:
        raise Problem(400, "the best cannot be told before the end; leave out best_of or stream", None, "best_of")


def _ask(body: Completion, served: ServedModel, prompt: str | list[int]) -> PromptRequest:
    max_tokens = 16 if body.max_tokens is None else body.max_tokens
    sampling = body.sampling(max_tokens, body.samples, body.logprobs or 0) if max_tokens else None
    wants_echo = bool(body.echo) and body.logprobs is not None
    return ask(served, prompt, sampling, wants_echo, body.logprobs or 0)


class Sample:
    """One choice: a sample of one prompt, and how much of it has been told."""

    def __init__(self, body: Completion, tokenizer: Tokenizer, asked: PromptRequest, number: int):
        self.body, self.tokenizer, self.asked, self.number = body, tokenizer, asked, number
        self.tokens: list[Token] = []
        self.decoder = tokenizer.stream()
        self.offset = 0  # characters that the tokens so far have made certain
        if not body.echo:
            prompt = asked.generating.prompt
            self.offset = len(prompt.text) - len(prompt.opening)
            for id in asked.ids[-1:]:
                self.decoder.feed(id)  # words that are joined by spaces need to know that they are not the first
        self.is_begun = False

    def piece(self, tokens: list[Token]) -> dict[str, Any]:
        """What is new: these tokens and, the first time, the prompt where it is to be echoed."""
        text = "".join(token.text for token in tokens)
        begins, self.is_begun = not self.is_begun, True
        echoes = begins and bool(self.body.echo)
        choice: dict[str, Any] = {
            "index": self.number,
            "text": self.asked.text + text if echoes else text,
            "logprobs": self._logprobs(tokens, echoes) if self.body.logprobs is not None else None,
            "finish_reason": self._reason(tokens),
        }
        if self.body.return_token_ids:
            choice["token_ids"] = [token.id for token in tokens]
            choice["prompt_token_ids"] = self.asked.ids if begins else None
        return choice

    def _reason(self, tokens: list[Token]) -> str | None:
        if self.asked.generating.sampling is None:
            return "length"
        reason = tokens[-1].finish_reason if tokens else None
        return "stop" if reason == "eos" else reason

    def _logprobs(self, tokens: list[Token], echoes: bool) -> dict[str, Any]:
        """Four lists, each as long as the tokens; a token's own figure is the same float wherever it stands."""
        ids, found, likely = [], [], []
        if echoes:
            ids += self.asked.ids
            numbers, others = self.asked.echoed()
            found += numbers
            likely += others
        ids += [token.id for token in tokens]
        found += [token.log_probability for token in tokens]
        likely += [token.alternatives for token in tokens]
        return {
            "tokens": [token_name(self.tokenizer, id) for id in ids],
            "token_logprobs": [None if each is None else finite(each) for each in found],
            "top_logprobs": [self._top(*each) for each in zip(ids, found, likely, strict=True)],
            "text_offset": [self._place(id) for id in ids],
        }

    def _place(self, id: int) -> int:
        """Where the token that comes next begins, in characters; all parts of one character begin where it does."""
        place = self.offset
        self.offset += len(self.decoder.feed(id))
        return place

    def _top(self, id: int, own: float | None, likely: Likely | None) -> dict[str, float] | None:
        """The likeliest and, whether it is among them or not, the token itself."""
        if own is None or likely is None:
            return None
        return {token_name(self.tokenizer, each): finite(value) for each, value in (*likely, (id, own))}


def finite(log_probability: float) -> float:
    return max(log_probability, NEVER)


class Answer:
    """The choices of one request, told whole or piece by piece."""

    def __init__(self, head: dict[str, Any], body: Completion, tokenizer: Tokenizer, asked: list[PromptRequest]):
        self.head, self.body, self.asked = head, body, asked
        self.samples = [
            [Sample(body, tokenizer, each, place * body.wanted + number) for number in range(body.samples)]
            for place, each in enumerate(asked)
        ]
        self._of = {id(each): samples for each, samples in zip(asked, self.samples, strict=True)}

    def hear(self, asked: PromptRequest, tokens: list[Token]) -> dict[int, list[Token]]:
        """Give every token to its sample; by sample, what came."""
        came: dict[int, list[Token]] = {}
        for token in tokens:
            self._of[id(asked)][token.sample].tokens.append(token)
            came.setdefault(token.sample, []).append(token)
        return came

    async def pieces(self, drawn: Drawn) -> AsyncGenerator[dict[str, Any], None]:
        async with aclosing(drawn):
            async for asked, tokens in drawn:
                for number, came in self.hear(asked, tokens).items():
                    yield self.head | {"choices": [self._of[id(asked)][number].piece(came)]}
        for samples in self.samples:
            for sample in samples:
                if not sample.is_begun:  # nothing was to be drawn
                    yield self.head | {"choices": [sample.piece([])]}

    async def whole(self, drawn: Drawn) -> JSONResponse:
        async for asked, tokens in drawn:
            self.hear(asked, tokens)
        return await asyncio.to_thread(lambda: JSONResponse(self._all()))  # with log-probabilities, it may be long

    def _all(self) -> dict[str, Any]:
        choices = [choice.piece(choice.tokens) for samples in self.samples for choice in self._best(samples)]
        for number, choice in enumerate(choices):
            choice["index"] = number
        return self.head | {"choices": choices, "usage": self.usage()}

    def _best(self, samples: list[Sample]) -> list[Sample]:
        """The likeliest by the token, where more were drawn than are wanted."""
        if len(samples) == self.body.wanted:
            return samples
        return sorted(samples, key=lambda each: -_mean(each.tokens))[: self.body.wanted]

    def usage(self) -> dict[str, int]:
        """All that was read and all that was drawn, of samples not chosen too."""
        prompt = sum(len(each.ids) for each in self.asked)
        completion = sum(len(sample.tokens) for samples in self.samples for sample in samples)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _mean(tokens: list[Token]) -> float:
    return sum(token.log_probability for token in tokens) / max(len(tokens), 1)
