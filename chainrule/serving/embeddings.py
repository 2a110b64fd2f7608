"""/v1/embeddings: vectors of texts, the averaged hidden states of a model."""

import asyncio
import base64
from functools import partial
from typing import Annotated, Literal, cast

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from chainrule.errors import UserError
from chainrule.generation.embeddings import EncodedText, batch_places, embed_batch, encode_texts
from chainrule.models.contract import HasHiddenStates
from chainrule.serving.errors import APIError
from chainrule.serving.model_provider import ServedModel
from chainrule.serving.prompts import CONTEXT_LENGTH_EXCEEDED, read_ids
from chainrule.serving.requests import ModelName, RequestBody, SomeIds, Text
from chainrule.serving.responses import EmbeddingResponse, JsonObject, declare
from chainrule.serving.service import Service
from chainrule.serving.streaming import until_disconnect
from chainrule.serving.unsupported import UNSUPPORTED

MOST_TEXTS = 2048  # OpenAI's limit


class EmbeddingRequest(RequestBody):
    model: ModelName = None
    input: (
        Text
        | SomeIds
        | Annotated[list[Text], Field(min_length=1, max_length=MOST_TEXTS, fail_fast=True)]
        | Annotated[list[SomeIds], Field(min_length=1, max_length=MOST_TEXTS, fail_fast=True)]
    ) = Field(description="Text, texts, ids, or lists of ids. Ids are read as they are, with nothing put in front.")
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: Annotated[int, Field(ge=1)] | None = Field(
        None, description="The length of the model's vectors; any other is refused."
    )
    pooling: Literal["mean", "last"] | None = Field(
        "mean", description="The mean over all tokens, or the vector after the last one."
    )
    user: Annotated[str, Field(max_length=1000)] | None = Field(None, description="Ignored.")

    @property
    def inputs(self) -> list[str] | list[list[int]]:
        if isinstance(self.input, str):
            return [self.input]
        is_one = isinstance(self.input[0], int)
        return [cast(list[int], self.input)] if is_one else cast(list[str] | list[list[int]], self.input)


def add_routes(app: FastAPI, service: Service) -> None:
    @app.post("/v1/embeddings", summary="Vectors of texts.", response_model=None, responses=declare(EmbeddingResponse))
    async def embed(body: EmbeddingRequest, request: Request) -> Response:
        served = _find_model(service, body.model)
        texts = await asyncio.to_thread(_encode, served, body.inputs)
        vectors = await until_disconnect(request, _embed(service, served, texts, body))
        return await asyncio.to_thread(lambda: JSONResponse(_to_json(served.id, texts, vectors, body.encoding_format)))


def _find_model(service: Service, id: str | None) -> ServedModel:
    """The model with this id, or the first one that has hidden states."""
    provider = service.models
    models = provider.language_models if id is None else [provider.language_model(id)]
    found = next((each for each in models if isinstance(each.model, HasHiddenStates)), None)
    if found is None:
        what = f"'{models[0].id}' is of kind {models[0].run.architecture}, which has no hidden state to make vectors of"
        raise APIError(400, f"{what}; use a model that learns by gradient, such as an LSTM", "no_embeddings", "model")
    return found


def _encode(served: ServedModel, inputs: list[str] | list[list[int]]) -> list[EncodedText]:
    if isinstance(inputs[0], str):
        try:
            return encode_texts(served.model, served.tokenizer, inputs)
        except UserError as error:
            raise APIError.from_user_error(error, CONTEXT_LENGTH_EXCEEDED, "input") from None
    start = getattr(served.tokenizer, "start", served.tokenizer.eos)
    return [EncodedText(read_ids(served, ids, "input").ids, int(len(ids) > 1 and ids[0] == start)) for ids in inputs]


async def _embed(
    service: Service, served: ServedModel, texts: list[EncodedText], body: EmbeddingRequest
) -> list[np.ndarray]:
    """The vector of each text."""
    vectors: list[np.ndarray] = [np.empty(0)] * len(texts)
    for places in batch_places(texts):  # a task each, so that other requests have their turn in between
        batch = [texts[place] for place in places]
        found = await service.scheduler.run(partial(embed_batch, served.model, batch, body.pooling or "mean"))
        width = found.shape[1]
        if body.dimensions not in (None, width):
            sentence = f"dimensions is not supported: vectors of '{served.id}' have {width} numbers; leave it out"
            raise APIError(400, sentence, UNSUPPORTED, "dimensions")
        for place, vector in zip(places, found, strict=True):
            vectors[place] = vector
    service.metrics.prompt_tokens.labels(served.id).inc(sum(text.length for text in texts))
    return vectors


def _to_json(model: str, texts: list[EncodedText], vectors: list[np.ndarray], encoding: str | None) -> JsonObject:
    data = [
        {"object": "embedding", "index": index, "embedding": _base64(each) if encoding == "base64" else each.tolist()}
        for index, each in enumerate(vectors)
    ]
    read = sum(text.length for text in texts)
    return {
        "object": "list",
        "data": data,
        "model": model,
        "usage": {"prompt_tokens": read, "total_tokens": read},
    }


def _base64(vector: np.ndarray) -> str:
    """Its numbers as little-endian floats of 32 bits."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
