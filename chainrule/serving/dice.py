"""/dice: one number in [0, 1) for many models at once, each with its own die, and where on its line the number falls.

/rolls: the numbers that a seed gives, so that the dice can be rolled as /v1/completions would have rolled them.
"""

from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query, Request
from pydantic import Field

from chainrule.errors import UserError
from chainrule.generation.batch import NO_TOKEN, dice_of
from chainrule.generation.choose import draw, line
from chainrule.generation.decoder import Decoder, half_of
from chainrule.generation.prompt import Prompt, read_prompt
from chainrule.generation.settings import Sampling
from chainrule.models.contract import log_softmax
from chainrule.serving.answers import ERRORS
from chainrule.serving.ask import read_ids
from chainrule.serving.library import ServedModel
from chainrule.serving.schema import MOST_TOKENS, Body, Filters, Looked, ModelName, post
from chainrule.serving.service import Service
from chainrule.serving.tokens import token_name

MOST_COLUMNS, MOST_FACES, MOST_ROLLS = 64, 50, MOST_TOKENS


class Column(Body):
    model: ModelName = None
    prompt: Looked = Field("", description="Text, read after an <eos>, or ids, read as they are.")


class Dice(Filters):
    columns: Annotated[list[Column], Field(min_length=1, max_length=MOST_COLUMNS, fail_fast=True)]
    roll: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
    faces: Annotated[int, Field(ge=1, le=MOST_FACES)] = 10


def add_routes(app: FastAPI, service: Service) -> None:
    @post(app, "/dice", Dice, "Roll the dice of several models with one number.")
    async def roll(body: Dice, request: Request) -> dict[str, Any]:
        asked = [(service.library.language(column.model), column.prompt) for column in body.columns]
        sampling = Sampling(**body.filters)
        columns = []
        for served, prompt in asked:  # one task each, so that others have their turn in between
            task = partial(rolled, served, prompt, sampling, body.roll, body.faces)
            try:
                columns.append(await service.engine.run(task))
            except UserError as error:  # a model that cannot go on does not keep the others from it
                columns.append({"model": served.id, "error": str(error)})
        return {"roll": body.roll, "columns": columns}

    @app.get("/rolls", summary="The numbers that a seed rolls with.", responses=ERRORS)
    async def rolls(
        seed: Annotated[int, Query(ge=0, le=2**63 - 1)], count: Annotated[int, Query(ge=1, le=MOST_ROLLS)] = 100
    ) -> dict[str, Any]:
        """Those of the first sample, one for each token."""
        return {"seed": seed, "rolls": dice_of(seed, 0).random(count).tolist()}


def read(served: ServedModel, prompt: str | list[int]) -> Prompt:
    """Of a text too long for a model, its latest tokens; a column of ids that grows forgets as a sample does."""
    if isinstance(prompt, str):
        return read_prompt(served.model, served.tokenizer, prompt, truncate=True)
    return read_ids(served, prompt, may_be_long=True)


def rolled(served: ServedModel, asked: str | list[int], sampling: Sampling, roll: float, most: int) -> dict[str, Any]:
    """The die of what comes next, and what the number draws from it."""
    prompt = read(served, asked)
    ids, tokenizer = prompt.ids, served.tokenizer
    remembered = ids[len(ids) - remembers(len(ids), served.context_length) :]
    logits = Decoder(served.model, remembered, allowed=prompt.allowed).logits[0]
    if logits.max() == -np.inf:
        raise UserError(NO_TOKEN)
    seen = np.isin(np.arange(len(logits)), ids)
    seen[tokenizer.eos] = False
    plain = np.exp(log_softmax(logits.astype(np.float64)))
    in_play, ends = line(logits, seen, sampling)
    bounds = np.append(0.0, ends)

    def face(id: int) -> dict[str, Any]:
        place = int(np.searchsorted(in_play, id))
        is_in_play = place < len(in_play) and in_play[place] == id
        begin, end = bounds[place : place + 2].tolist() if is_in_play else (0.0, 0.0)
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
    chosen = int(draw(logits[None], seen[None], sampling, np.array([roll]))[0])
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
        "drawn": face(chosen)
        | {"text": prompt.continuation(tokenizer).feed(chosen), "is_end": chosen == tokenizer.eos},
    }


def remembers(length: int, context_length: int | None) -> int:
    """How many of the latest tokens a sample of this length has in its state; a full one begins anew with half."""
    if context_length is None or length <= context_length:
        return length
    half = half_of(context_length)
    return half + (length - context_length - 1) % (context_length - half + 1)
