"""/v1/completions: continue a text, with every log-probability on request."""

import asyncio
import time
from secrets import token_hex
from typing import Annotated, cast

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import BeforeValidator, Field

from chainrule.checks import require_number
from chainrule.errors import UserError
from chainrule.generation import Sampling
from chainrule.generation.settings import LARGEST_BIAS
from chainrule.serving.completion_choices import CompletionBuilder
from chainrule.serving.errors import APIError
from chainrule.serving.generate import stream_tokens
from chainrule.serving.model_provider import ServedModel
from chainrule.serving.prompts import PromptRequest, make_request
from chainrule.serving.requests import (
    MOST_TOKENS,
    Between,
    ModelName,
    SamplingFilters,
    Seed,
    SomeIds,
    Text,
    sentence_error,
)
from chainrule.serving.responses import CompletionResponse, declare
from chainrule.serving.service import Service
from chainrule.serving.streaming import StreamOptions, event_stream, until_disconnect
from chainrule.serving.structured import ResponseFormat, check_structure

MOST_PROMPTS = 256
MOST_SAMPLES = 64
MOST_LOGPROBS = 20
MOST_STOPS = 1000
MOST_STOP_CHARACTERS = 10_000  # of all stop strings together
Stop = Annotated[str, Field(max_length=200)]  # every sample keeps all prefixes of it
MOST_BIASES = 1024
TokenId = Annotated[str, Field(pattern="^[0-9]+$")]  # names in JSON are strings
Bias = Annotated[float, Field(ge=-LARGEST_BIAS, le=LARGEST_BIAS)]


def check_biases(value: object) -> object:
    """A bias from -100 to 100 for each of some tokens, which JSON names by their ids as strings."""
    with sentence_error():
        if value is None:
            return None
        if not isinstance(value, dict) or len(value) > MOST_BIASES:
            raise UserError(f"logit_bias must be an object of at most {MOST_BIASES:,} token ids with their biases")
        for id, bias in value.items():
            if not (isinstance(id, str) and id.isascii() and id.isdigit()):
                raise UserError(f"logit_bias must name tokens by their ids, got '{str(id)[:80]}'")
            require_number(f"logit_bias of the token {id[:20]}", bias, -LARGEST_BIAS, LARGEST_BIAS)
        return value


class GenerationRequest(SamplingFilters):
    """The fields that completions and chat completions share."""

    model: ModelName = None
    n: Annotated[int, Field(ge=1, le=MOST_SAMPLES)] | None = 1
    seed: Seed | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=MOST_STOPS, fail_fast=True)] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    user: Annotated[str, Field(max_length=1000)] | None = Field(None, description="Ignored.")
    presence_penalty: Annotated[float | None, Between(-2, 2)] = 0.0
    frequency_penalty: Annotated[float | None, Between(-2, 2)] = 0.0
    no_repeat_ngram_size: Annotated[int | None, Between(0, MOST_TOKENS)] = 0
    min_tokens: Annotated[int | None, Between(0, MOST_TOKENS)] = 0
    logit_bias: Annotated[dict[TokenId, Bias] | None, BeforeValidator(check_biases)] = Field(
        None, description="From -100 to 100 for each of some token ids."
    )
    response_format: ResponseFormat | None = Field(None, description="Text, any JSON object, or JSON of a schema.")

    @property
    def num_choices(self) -> int:
        return self.n or 1

    def sampling(self, max_tokens: int, samples: int, alternatives: int, stop: tuple[str, ...] = ()) -> Sampling:
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        length = sum(map(len, given))
        if length > MOST_STOP_CHARACTERS:
            sentence = f"stop strings have {length:,} characters together; {MOST_STOP_CHARACTERS:,} are allowed"
            raise APIError(400, sentence, "invalid_value", "stop")
        return Sampling(
            **self.filters,
            presence_penalty=self.presence_penalty or 0.0,
            frequency_penalty=self.frequency_penalty or 0.0,
            no_repeat_ngram_size=self.no_repeat_ngram_size or 0,
            min_tokens=self.min_tokens or 0,
            logit_bias={int(id): bias for id, bias in self.logit_bias.items()} if self.logit_bias else None,
            json_schema=self.response_format.schema_to_match if self.response_format else None,
            max_tokens=max_tokens,
            samples=samples,
            seed=self.seed,
            stop=(*(each for each in given if each), *stop),
            alternatives=alternatives,
        ).seeded()


class CompletionRequest(GenerationRequest):
    prompt: (
        Text
        | SomeIds
        | Annotated[list[Text], Field(min_length=1, max_length=MOST_PROMPTS, fail_fast=True)]
        | Annotated[list[SomeIds], Field(min_length=1, max_length=MOST_PROMPTS, fail_fast=True)]
    ) = Field("", description="Text, texts, ids, or lists of ids. Ids are read as they are, with nothing put in front.")
    max_tokens: Annotated[int, Field(ge=0, le=MOST_TOKENS)] | None = 16
    best_of: Annotated[int, Field(ge=1, le=MOST_SAMPLES)] | None = None
    echo: bool | None = False
    logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None
    suffix: str | None = Field(None, max_length=1_000_000, description="Not supported: models here read left to right.")
    return_token_ids: bool = Field(False, description="Add `token_ids` and `prompt_token_ids` to every choice.")

    @property
    def prompts(self) -> list[str] | list[list[int]]:
        if isinstance(self.prompt, str):
            return [self.prompt]
        is_one = isinstance(self.prompt[0], int)
        return [cast(list[int], self.prompt)] if is_one else cast(list[str] | list[list[int]], self.prompt)

    @property
    def samples(self) -> int:
        """How many samples are drawn for each prompt."""
        return max(self.num_choices, self.best_of or 1)


def add_routes(app: FastAPI, service: Service) -> None:
    @app.post(
        "/v1/completions",
        summary="Continue some text.",
        response_model=None,
        responses=declare(CompletionResponse, streams=True),
    )
    async def complete(body: CompletionRequest, request: Request) -> Response:
        _refuse_unsupported(body)
        served = service.models.language_model(body.model)
        requests = await asyncio.to_thread(lambda: [_make_request(body, served, prompt) for prompt in body.prompts])
        head = {"id": f"cmpl-{token_hex(12)}", "object": "text_completion", "created": int(time.time())}
        builder = CompletionBuilder(head | {"model": served.id}, body, served.tokenizer, requests)
        tokens = stream_tokens(service, served, requests)
        if body.stream:
            return await event_stream(request, builder.chunks(tokens), builder.usage, builder.head, body.stream_options)
        return await until_disconnect(request, builder.response(tokens))


def _refuse_unsupported(body: CompletionRequest) -> None:
    if body.suffix:
        raise APIError(400, "suffix is not supported: models here read from left to right", "unsupported", "suffix")
    if body.best_of is not None and body.best_of < body.num_choices:
        sentence = f"best_of must be at least n, got {body.best_of} and {body.num_choices}"
        raise APIError(400, sentence, "invalid_value", "best_of")
    if body.stream and body.samples > body.num_choices:
        raise APIError(400, "the best sample is known only at the end; leave out best_of or stream", None, "best_of")


def _make_request(body: CompletionRequest, served: ServedModel, prompt: str | list[int]) -> PromptRequest:
    max_tokens = 16 if body.max_tokens is None else body.max_tokens
    sampling = body.sampling(max_tokens, body.samples, body.logprobs or 0) if max_tokens else None
    if sampling is not None:
        check_structure(served.tokenizer, sampling, "response_format")
    wants_logprobs = bool(body.echo) and body.logprobs is not None
    return make_request(served, prompt, sampling, wants_logprobs, body.logprobs or 0)
