"""/explain: why a model predicts what it does, in its own terms, small enough for a page."""

from dataclasses import replace
from typing import Annotated

import numpy as np
from fastapi import FastAPI
from pydantic import AliasChoices, Field

from chainrule.analysis.explain.explanation import MOST_READ, TOP, explain, explain_prompt
from chainrule.config import without_infinities
from chainrule.generation.settings import Sampling
from chainrule.models.explanation import Gates, InnerTerms, ResidualStream
from chainrule.serving.dice import MOST_FACES
from chainrule.serving.model_provider import ServedModel
from chainrule.serving.prompts import read_ids
from chainrule.serving.requests import Id, ModelName, SamplingFilters, ShownPrompt
from chainrule.serving.responses import declare
from chainrule.serving.service import Service
from chainrule.serving.tokens import check_ids

SHOWN_TOKENS, SHOWN_UNITS = 64, 64


class ExplainRequest(SamplingFilters):
    model: ModelName = None
    prompt: ShownPrompt = Field("", description="Text, read after an <eos>, or ids, read as they are.")
    token: Annotated[str, Field(max_length=1000)] | Id | None = Field(None, description="The likeliest if left out.")
    top: Annotated[int, Field(ge=1, le=MOST_FACES)] = Field(
        TOP, validation_alias=AliasChoices("top", "faces"), description="How many of the likeliest tokens to list."
    )


def add_routes(app: FastAPI, service: Service) -> None:
    @app.post("/explain", summary="Explain a prediction.", response_model=None, responses=declare())
    async def explain(body: ExplainRequest) -> dict[str, object]:
        served = service.models.language_model(body.model)
        if isinstance(body.token, int):
            check_ids(served.tokenizer, [body.token], "token")
        return await service.scheduler.run(lambda: explained(served, body))


def explained(served: ServedModel, body: ExplainRequest) -> dict[str, object]:
    """What `chainrule explain --json` prints, with attention and states of the latest tokens and first units alone."""
    run, model, tokenizer = served.run, served.model, served.tokenizer
    sampling = Sampling(**body.filters)
    shards = run.shards() if run.has_shards else None
    if isinstance(body.prompt, str):
        found = explain(model, tokenizer, body.prompt, body.token, sampling, shards, body.top)
    else:
        prompt = read_ids(served, body.prompt, may_be_long=True)
        most = min(MOST_READ, served.context_length or MOST_READ)
        prompt = replace(prompt, ids=prompt.ids[-most:])
        found = explain_prompt(model, tokenizer, prompt, body.token, sampling, shards, body.top)
    told: dict[str, object] = without_infinities(replace(found, inside=_shorten(found.inside)).to_json())
    return told


def _shorten(terms: InnerTerms | None) -> InnerTerms | None:
    """The terms with large arrays cut to what a page can show."""
    match terms:
        case ResidualStream():
            return replace(terms, attention=terms.attention[:, :, -SHOWN_TOKENS:, -SHOWN_TOKENS:].round(4))
        case Gates():
            layers = [replace(each, gates=_cut(each.gates), state=_cut(each.state)) for each in terms.layers]
            return replace(terms, layers=layers)
    return terms


def _cut(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The latest tokens and the first units of arrays (time, width)."""
    return {name: each[-SHOWN_TOKENS:, :SHOWN_UNITS].round(4) for name, each in values.items()}
