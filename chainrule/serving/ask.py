"""From a request to what the engine draws: prompts as text or ids, settings, and all that is heard of each sample."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chainrule.errors import UserError
from chainrule.generation import Sampling, Token
from chainrule.generation.batch import most_likely
from chainrule.generation.decoder import NOT_FINITE
from chainrule.generation.prompt import Prompt, read_prompt
from chainrule.models.contract import log_softmax
from chainrule.serving.jobs import Answer, Generating, GenerationJob
from chainrule.serving.library import ServedModel
from chainrule.serving.problems import Problem
from chainrule.serving.service import Service
from chainrule.serving.tokens import check_ids

Likely = tuple[tuple[int, float], ...]  # (id, log-probability), most likely first
Drawn = AsyncGenerator[
    tuple["PromptRequest", list[Token]], None
]  # new tokens of some samples of a prompt, as they come
Heard = AsyncGenerator[tuple[GenerationJob, list[Any]], None]


@dataclass
class Echo:
    """What the model expected at every token of a prompt after the first: filled while the prompt is read."""

    ids: np.ndarray  # all that is read
    alternatives: int
    log_probabilities: list[float] = field(default_factory=list)
    likely: list[Likely] = field(default_factory=list)

    def heed(self, logits: np.ndarray) -> None:
        """logits (time, vocabulary) are for the tokens that come after those heard of so far."""
        begin = len(self.log_probabilities) + 1
        following = self.ids[begin : begin + len(logits)]
        if len(following) == 0:
            return
        found = log_softmax(logits[: len(following)])
        if np.isnan(found).any():
            raise UserError(NOT_FINITE)
        self.log_probabilities += found[np.arange(len(following)), following].tolist()
        zero = np.zeros(len(found))
        self.likely += most_likely(found, zero, self.alternatives) if self.alternatives else [()] * len(found)


@dataclass
class PromptRequest:
    """One prompt of a request: its tokens as the client sees them, and what is generated for it."""

    generating: Generating
    text: str
    ids: list[int]  # without the <eos> that every text begins with, unless the client gave it
    echo: Echo | None

    def echoed(self) -> tuple[list[float | None], list[Likely | None]]:
        """Log-probability and alternatives of each of `ids`; none for the first."""
        assert self.echo is not None
        count = len(self.ids)
        if count == 0:
            return [], []
        rest = count - 1
        found, likely = self.echo.log_probabilities, self.echo.likely
        return [None, *found[len(found) - rest :]], [None, *likely[len(likely) - rest :]]


def ask(
    served: ServedModel,
    prompt: str | list[int] | Prompt,
    sampling: Sampling | None,
    wants_echo: bool = False,
    alternatives: int = 0,
    field: str = "prompt",
) -> PromptRequest:
    """Text is read as `chainrule sample` reads it, after an <eos>; ids as they are, with nothing put in front; what
    has been read already, such as a conversation, as it was.

    Where the log-probabilities of a text's own tokens are wanted, a space at its end is one of them; else it is taken
    back, to begin the word that comes.
    """
    if isinstance(prompt, str):
        read = _read_text(served, prompt, not wants_echo, field)
        ids = [id for id in read.ids.tolist() if id != served.tokenizer.eos]  # which no text spells
    elif isinstance(prompt, Prompt):
        read = prompt
        ids = read.ids.tolist()
        ids = ids[1:] if ids[0] == served.tokenizer.eos else ids
    else:
        read = read_ids(served, prompt, field)
        ids = prompt
    echo = Echo(read.ids, alternatives) if wants_echo else None
    return PromptRequest(Generating(served, read, sampling, echo.heed if echo else None), read.text, ids, echo)


def _read_text(served: ServedModel, text: str, heals: bool, field: str) -> Prompt:
    try:
        return read_prompt(served.model, served.tokenizer, text, truncate=False, heals=heals)
    except UserError as error:
        what = str(error).replace(" or pass --truncate", "")
        raise Problem(400, what, "context_length_exceeded", field) from None


def read_ids(served: ServedModel, ids: list[int], field: str = "prompt", may_be_long: bool = False) -> Prompt:
    check_ids(served.tokenizer, ids, field)
    if served.context_length is not None and len(ids) > served.context_length and not may_be_long:
        found = f"the prompt has {len(ids)} tokens but this model reads {served.context_length}; shorten it"
        raise Problem(400, found, "context_length_exceeded", field)
    return Prompt(np.array(ids, np.int64), served.tokenizer.decode(ids))


async def draw(service: Service, asked: Sequence[PromptRequest]) -> Drawn:
    """What is drawn for the prompts of one request, as it comes; whoever stops listening stops the drawing."""
    owners: dict[GenerationJob, PromptRequest] = {each.generating: each for each in asked}
    async with aclosing(hear(service, list(owners))) as heard:
        async for generating, tokens in heard:
            yield owners[generating], tokens


async def hear(service: Service, wanted: Sequence[GenerationJob]) -> Heard:
    """What comes of all that one request wants, as it comes; whoever stops listening stops it."""
    answers: asyncio.Queue[tuple[GenerationJob, Answer]] = asyncio.Queue()
    for each in wanted:
        each.answers = answers
    await service.engine.generate(*wanted)
    left = len(wanted)
    try:
        while left:
            each, answer = await answers.get()
            if isinstance(answer, Exception):
                raise answer
            if answer is None:
                left -= 1
            else:
                yield each, answer
    finally:
        service.engine.cancel(*wanted)
