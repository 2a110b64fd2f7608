"""/compare: the bits of every piece of one text under each model.

The results of the command `chainrule compare` are at /leaderboards.
"""

from functools import partial
from itertools import pairwise
from typing import Annotated

import numpy as np
from fastapi import FastAPI
from pydantic import Field

from chainrule.serving.requests import RequestBody, ShownText
from chainrule.serving.responses import JsonObject, declare
from chainrule.serving.service import Service
from chainrule.serving.surprisal import Surprisal, characters_before, common_bounds, disagreements, measure

MOST_MODELS = 64


class CompareRequest(RequestBody):
    text: Annotated[ShownText, Field(min_length=1)]
    models: (
        Annotated[
            list[Annotated[str, Field(max_length=4096)]], Field(min_length=1, max_length=MOST_MODELS, fail_fast=True)
        ]
        | None
    ) = Field(None, description="Of /v1/models; all of them if left out.")


def add_routes(app: FastAPI, service: Service) -> None:
    @app.post(
        "/compare",
        summary="The bits that every model needs for each piece of a text.",
        response_model=None,
        responses=declare(),
    )
    async def compare(body: CompareRequest) -> JsonObject:
        provider = service.models
        names = dict.fromkeys(body.models or ())
        models = [provider.language_model(name) for name in names] or provider.language_models
        surprisals = [
            await service.scheduler.run(partial(measure, served.model, served.tokenizer, body.text))
            for served in models
        ]
        return to_json(body.text, [each.id for each in models], surprisals)


def to_json(text: str, names: list[str], surprisals: list[Surprisal]) -> JsonObject:
    """Tokens and bits by model, bits by span and model, and the spans at which the models differ most."""
    data = text.encode()
    bounds = common_bounds(surprisals, data)
    characters = characters_before(data)
    bits = np.stack([each.between(bounds) for each in surprisals])  # (models, spans)
    models: list[JsonObject] = []
    for name, each in zip(names, surprisals, strict=True):
        pieces = _pieces(text, characters[[0, *each.ends]])
        per_byte = _finite(each.total / len(data)) if each.has_measure else None
        models.append(
            {
                "model": name,
                "tokens": [piece | {"bits": _finite(value)} for piece, value in zip(pieces, each.bits, strict=True)],
                "end_bits": _finite(each.end_bits),
                "bits": _finite(each.total),
                "bits_per_byte": per_byte,
            }
        )
    spans = [
        piece | {"bits": [_finite(value) for value in column]}
        for piece, column in zip(_pieces(text, characters[bounds]), bits.T, strict=True)
    ]
    places = disagreements(bits) if len(surprisals) > 1 else []
    return {"bytes": len(data), "models": models, "spans": spans, "disagreements": places}


def _pieces(text: str, bounds: np.ndarray) -> list[JsonObject]:
    """The text cut at these characters; a character of several tokens belongs to the first of them."""
    return [{"text": text[begin:end], "begin": begin, "end": end} for begin, end in pairwise(bounds.tolist())]


def _finite(bits: float) -> float | None:
    """None: probability zero."""
    return float(bits) if np.isfinite(bits) else None
