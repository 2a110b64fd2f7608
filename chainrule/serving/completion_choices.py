"""The response of /v1/completions, built from tokens: as a whole, or as the chunks of a stream."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from fastapi.responses import JSONResponse

from chainrule.generation import Token
from chainrule.generation.batch import TopTokens
from chainrule.generation.prompt import follow
from chainrule.serving.generate import TokenStream
from chainrule.serving.prompts import PromptRequest
from chainrule.serving.responses import JsonObject
from chainrule.serving.tokens import token_name
from chainrule.text.base import Tokenizer

NEVER = -9999.0  # JSON has no -inf


class CompletionOptions(Protocol):
    """The fields of a `CompletionRequest` that decide what its response contains."""

    @property
    def echo(self) -> bool | None: ...
    @property
    def logprobs(self) -> int | None: ...
    @property
    def return_token_ids(self) -> bool: ...
    @property
    def num_choices(self) -> int: ...
    @property
    def samples(self) -> int: ...


class ChoiceBuilder:
    """One choice: a sample of one prompt, and how much of it has been sent."""

    def __init__(self, body: CompletionOptions, tokenizer: Tokenizer, request: PromptRequest, index: int):
        self.body, self.tokenizer, self.request, self.index = body, tokenizer, request, index
        self.tokens: list[Token] = []
        self.decoder = tokenizer.stream()
        self.offset = 0  # characters decoded so far
        if not body.echo:
            prompt = request.job.prompt
            self.offset = len(prompt.text) - len(prompt.opening)
            follow(self.decoder, request.ids)
        self.is_begun = False

    def choice(self, tokens: list[Token]) -> JsonObject:
        """A choice with these new tokens; the first time with the prompt, where it is to be echoed."""
        text = "".join(token.text for token in tokens)
        is_first, self.is_begun = not self.is_begun, True
        echoes = is_first and bool(self.body.echo)
        choice: JsonObject = {
            "index": self.index,
            "text": self.request.text + text if echoes else text,
            "logprobs": self._logprobs(tokens, echoes) if self.body.logprobs is not None else None,
            "finish_reason": self._finish_reason(tokens),
        }
        if self.body.return_token_ids:
            choice["token_ids"] = [token.id for token in tokens]
            choice["prompt_token_ids"] = self.request.ids if is_first else None
        return choice

    @property
    def mean_log_probability(self) -> float:
        return sum(token.log_probability for token in self.tokens) / max(len(self.tokens), 1)

    def _finish_reason(self, tokens: list[Token]) -> str | None:
        if self.request.job.sampling is None:
            return "length"
        reason = tokens[-1].finish_reason if tokens else None
        return "stop" if reason == "eos" else reason

    def _logprobs(self, tokens: list[Token], echoes: bool) -> JsonObject:
        """Four lists, each as long as the tokens; the log-probability of a token is the same float in both lists."""
        ids = [token.id for token in tokens]
        scores: list[float | None] = [token.log_probability for token in tokens]
        top: list[TopTokens | None] = [token.alternatives for token in tokens]
        if echoes:
            prompt_scores, prompt_top = self.request.echoed()
            ids, scores, top = self.request.ids + ids, prompt_scores + scores, prompt_top + top
        return {
            "tokens": [token_name(self.tokenizer, id) for id in ids],
            "token_logprobs": [None if each is None else finite(each) for each in scores],
            "top_logprobs": [self._top_logprobs(*each) for each in zip(ids, scores, top, strict=True)],
            "text_offset": [self._next_offset(id) for id in ids],
        }

    def _next_offset(self, id: int) -> int:
        """The character at which the next token begins; all tokens of one character begin at that character."""
        offset = self.offset
        self.offset += len(self.decoder.feed(id))
        return offset

    def _top_logprobs(self, id: int, score: float | None, top: TopTokens | None) -> dict[str, float] | None:
        """The most likely tokens and, whether it is among them or not, the token itself."""
        if score is None or top is None:
            return None
        return {token_name(self.tokenizer, each): finite(value) for each, value in (*top, (id, score))}


class CompletionBuilder:
    """The choices of one request, as a whole response or as chunks."""

    def __init__(self, head: JsonObject, body: CompletionOptions, tokenizer: Tokenizer, requests: list[PromptRequest]):
        self.head, self.body, self.requests = head, body, requests
        self.choices = [  # of each prompt, one for every sample
            [ChoiceBuilder(body, tokenizer, each, place * body.num_choices + i) for i in range(body.samples)]
            for place, each in enumerate(requests)
        ]
        self._of = {id(each): choices for each, choices in zip(requests, self.choices, strict=True)}

    def add(self, request: PromptRequest, tokens: list[Token]) -> dict[int, list[Token]]:
        """Add every token to its choice; returns the new tokens by sample."""
        new: dict[int, list[Token]] = {}
        for token in tokens:
            self._of[id(request)][token.sample].tokens.append(token)
            new.setdefault(token.sample, []).append(token)
        return new

    async def chunks(self, stream: TokenStream) -> AsyncGenerator[JsonObject, None]:
        async with aclosing(stream):
            async for request, tokens in stream:
                for sample, new in self.add(request, tokens).items():
                    yield self.head | {"choices": [self._of[id(request)][sample].choice(new)]}
        for choices in self.choices:
            for each in choices:
                if not each.is_begun:  # a prompt that is only read
                    yield self.head | {"choices": [each.choice([])]}

    async def response(self, stream: TokenStream) -> JSONResponse:
        async for request, tokens in stream:
            self.add(request, tokens)
        return await asyncio.to_thread(lambda: JSONResponse(self._body()))  # with log-probabilities, it may be long

    def _body(self) -> JsonObject:
        choices = [each.choice(each.tokens) for choices in self.choices for each in self._best(choices)]
        for index, choice in enumerate(choices):
            choice["index"] = index
        return self.head | {"choices": choices, "usage": self.usage()}

    def _best(self, choices: list[ChoiceBuilder]) -> list[ChoiceBuilder]:
        """The `n` choices of the highest mean log-probability, where best_of is larger."""
        if len(choices) == self.body.num_choices:
            return choices
        return sorted(choices, key=lambda each: -each.mean_log_probability)[: self.body.num_choices]

    def usage(self) -> dict[str, int]:
        """All tokens that were read and drawn, including samples that were not chosen."""
        prompt = sum(len(each.ids) for each in self.requests)
        completion = sum(len(each.tokens) for choices in self.choices for each in choices)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def finite(log_probability: float) -> float:
    return max(log_probability, NEVER)
