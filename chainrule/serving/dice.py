"""/dice: the next-token distributions of several models as dice, all rolled with the same number in [0, 1).

/rolls: the random numbers of a seed, with which the dice show the tokens that /v1/completions draws.
"""

from functools import partial
from typing import Annotated, TypedDict

import numpy as np
from fastapi import FastAPI, Query
from pydantic import Field

from chainrule.errors import UserError
from chainrule.generation.batch import NO_TOKEN, random_stream
from chainrule.generation.decoder import Decoder, restart_length
from chainrule.generation.draw import cumulative_distribution, draw_ids
from chainrule.generation.processors import LogitsProcessor
from chainrule.generation.prompt import Prompt, read_prompt
from chainrule.generation.settings import Sampling
from chainrule.models.contract import log_softmax
from chainrule.serving.model_provider import ServedModel
from chainrule.serving.prompts import read_ids
from chainrule.serving.requests import MOST_TOKENS, ModelName, RequestBody, SamplingFilters, ShownPrompt
from chainrule.serving.responses import ERRORS, JsonObject, declare
from chainrule.serving.service import Service
from chainrule.serving.tokens import token_name

MOST_COLUMNS, MOST_FACES, MOST_ROLLS = 64, 50, MOST_TOKENS


class DiceColumn(RequestBody):
    model: ModelName = None
    prompt: ShownPrompt = Field("", description="Text, read after an <eos>, or ids, read as they are.")


class DiceRequest(SamplingFilters):
    columns: Annotated[list[DiceColumn], Field(min_length=1, max_length=MOST_COLUMNS, fail_fast=True)]
    roll: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
    faces: Annotated[int, Field(ge=1, le=MOST_FACES)] = 10


class Face(TypedDict):
    """A token on the die: its probability by the model, after the filters, and its interval of the cumulative line."""

    id: int
    token: str
    probability: float
    filtered: float
    begin: float
    end: float


def add_routes(app: FastAPI, service: Service) -> None:
    @app.post(
        "/dice",
        summary="Draw the next token of several models with one random number.",
        response_model=None,
        responses=declare(),
    )
    async def roll(body: DiceRequest) -> JsonObject:
        prompts = [(service.models.language_model(column.model), column.prompt) for column in body.columns]
        sampling = Sampling(**body.filters)
        columns: list[JsonObject] = []
        for served, prompt in prompts:  # a task each, so that other requests have their turn in between
            task = partial(roll_die, served, prompt, sampling, body.roll, body.faces)
            try:
                columns.append(await service.scheduler.run(task))
            except UserError as error:  # the other models still roll
                columns.append({"model": served.id, "error": error.sentence})
        return {"roll": body.roll, "columns": columns}

    @app.get("/rolls", summary="The random numbers of a seed.", responses=ERRORS)
    async def rolls(
        seed: Annotated[int, Query(ge=0, le=2**63 - 1)], count: Annotated[int, Query(ge=1, le=MOST_ROLLS)] = 100
    ) -> JsonObject:
        """The numbers of the first sample, one for each token."""
        return {"seed": seed, "rolls": random_stream(seed, 0).random(count).tolist()}


def read(served: ServedModel, prompt: str | list[int]) -> Prompt:
    """A text that is too long for a model is cut to its last tokens; ids are shortened as a growing sample is."""
    if isinstance(prompt, str):
        return read_prompt(served.model, served.tokenizer, prompt, truncate=True)
    return read_ids(served, prompt, may_be_long=True)


def roll_die(served: ServedModel, given: str | list[int], sampling: Sampling, roll: float, most: int) -> JsonObject:
    """The distribution of the next token as a die of at most `most` faces, and the token that `roll` draws."""
    prompt = read(served, given)
    ids, tokenizer = prompt.ids, served.tokenizer
    in_context = ids[len(ids) - tokens_in_context(len(ids), served.context_length) :]
    logits = Decoder(served.model, in_context, allowed=prompt.allowed).logits[0]
    if logits.max() == -np.inf:
        raise UserError(NO_TOKEN)
    processed = LogitsProcessor(sampling, ids.tolist(), (tokenizer.eos,))(logits)
    plain = np.exp(log_softmax(logits.astype(np.float64)))
    candidates, ends = cumulative_distribution(processed, sampling)
    bounds = np.append(0.0, ends)

    def face(id: int) -> Face:
        place = int(np.searchsorted(candidates, id))
        is_candidate = place < len(candidates) and candidates[place] == id
        begin, end = bounds[place : place + 2].tolist() if is_candidate else (0.0, 0.0)
        return {
            "id": id,
            "token": token_name(tokenizer, id),
            "probability": float(plain[id]),
            "filtered": end - begin,
            "begin": begin,
            "end": end,
        }

    order = np.argsort(-plain, kind="stable")
    faces = [face(id) for id in order[: max(1, min(most, int((plain > 0).sum())))].tolist()]
    chosen = int(draw_ids(processed[None], sampling, np.array([roll]))[0])
    shown = sum(each["filtered"] for each in faces)
    return {
        "model": served.id,
        "ids": ids.tolist(),
        "text": prompt.text,
        "faces": faces,
        "others": {
            "count": len(order) - len(faces),
            "probability": float(plain[order[len(faces) :]].sum()),
            "filtered": max(0.0, 1.0 - shown),
        },
        "entropy_bits": float(-(plain[plain > 0] * np.log2(plain[plain > 0])).sum()),
        "drawn": {
            **face(chosen),
            "text": prompt.continuation(tokenizer, is_shown=isinstance(given, str)).feed(chosen),
            "is_end": chosen == tokenizer.eos,
        },
    }


def tokens_in_context(length: int, context_length: int | None) -> int:
    """How many of the latest tokens the state of a sample of this length holds; a full context restarts with half."""
    if context_length is None or length <= context_length:
        return length
    half = restart_length(context_length)
    return half + (length - context_length - 1) % (context_length - half + 1)
