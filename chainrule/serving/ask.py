"""From a request to what the engine draws: prompts as text or ids, settings, and all that is heard of each sample."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from chainrule.errors import UserError
from chainrule.generation import Sampling, Token
from chainrule.generation.batch import most_likely
from chainrule.generation.prompt import Prompt, read_prompt
from chainrule.models.base import log_softmax
from chainrule.serving.engine import Answer, Generating
from chainrule.serving.library import Served
from chainrule.serving.problems import Problem
from chainrule.serving.service import Service
from chainrule.serving.tokens import check_ids

Likely = tuple[tuple[int, float], ...]  # (id, log-probability), most likely first


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
        logits = logits[: len(following)]
        found = log_softmax(logits)
        self.log_probabilities += found[np.arange(len(following)), following].tolist()
        zero = np.zeros(len(found))
        self.likely += most_likely(found, zero, self.alternatives) if self.alternatives else [()] * len(found)


@dataclass
class Asked:
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
    served: Served, prompt: str | list[int], sampling: Sampling | None, wants_echo: bool, alternatives: int
) -> Asked:
    """Text is read as `chainrule sample` reads it, after an <eos>; ids as they are, with nothing put in front."""
    read = read_text(served, prompt) if isinstance(prompt, str) else read_ids(served, prompt)
    ids = read.ids[1:].tolist() if isinstance(prompt, str) else prompt
    echo = Echo(read.ids, alternatives) if wants_echo else None
    return Asked(Generating(served, read, sampling, echo.heed if echo else None), read.text, ids, echo)


def read_text(served: Served, prompt: str) -> Prompt:
    try:
        return read_prompt(served.model, served.tokenizer, prompt, truncate=False)
    except UserError as error:
        what = str(error).replace(" or pass --truncate", "")
        raise Problem(400, what, "context_length_exceeded", "prompt") from None


def read_ids(served: Served, prompt: list[int], may_be_long: bool = False) -> Prompt:
    if not prompt:
        raise Problem(400, "a prompt of ids must not be empty; the end token begins a text", None, "prompt")
    check_ids(served.tokenizer, prompt, "prompt")
    if served.context_length is not None and len(prompt) > served.context_length and not may_be_long:
        found = f"the prompt has {len(prompt)} tokens but this model reads {served.context_length}; shorten it"
        raise Problem(400, found, "context_length_exceeded", "prompt")
    return Prompt(np.array(prompt, np.int64), served.tokenizer.decode(prompt))


async def draw(service: Service, asked: Sequence[Asked]) -> AsyncIterator[tuple[Asked, list[Token]]]:
    """What is drawn for the prompts of one request, as it comes; whoever stops listening stops the drawing."""
    answers: asyncio.Queue[tuple[Generating, Answer]] = asyncio.Queue()
    owners = {each.generating: each for each in asked}
    for generating in owners:
        generating.answers = answers
    await service.engine.generate(*owners)
    left = len(owners)
    try:
        while left:
            generating, answer = await answers.get()
            if isinstance(answer, Exception):
                raise answer
            if answer is None:
                left -= 1
            else:
                yield owners[generating], answer
    finally:
        service.engine.cancel(*owners)
