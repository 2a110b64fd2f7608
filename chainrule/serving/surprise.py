"""/compare: how many bits every piece of a text costs each model.

Models cut a text into different tokens. They are compared on the spans between the places where all of them have a
boundary: there each model's bits are exact sums over its own tokens.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Request
from pydantic import Field

from chainrule.evaluation.score import NATS_PER_BIT
from chainrule.models.contract import LanguageModel
from chainrule.serving.schema import Body, ShownText, post
from chainrule.serving.service import Service
from chainrule.text.base import Tokenizer

MOST_MODELS = 64
PLACES = 10  # of the largest disagreement


class Comparing(Body):
    text: Annotated[ShownText, Field(min_length=1)]
    models: (
        Annotated[
            list[Annotated[str, Field(max_length=4096)]], Field(min_length=1, max_length=MOST_MODELS, fail_fast=True)
        ]
        | None
    ) = Field(None, description="Of /v1/models; all of them if left out.")


@dataclass(frozen=True)
class Surprise:
    """The bits of each token of a text, infinite where a model takes it for impossible."""

    ends: np.ndarray  # (tokens,) in bytes of the text; each begins where the one before it ends
    bits: np.ndarray  # (tokens,)
    end_bits: float  # of the end of the text
    has_measure: bool  # whether bits per byte mean anything: nothing is hidden, probabilities sum to one

    @property
    def total(self) -> float:
        return float(self.bits.sum()) + self.end_bits

    def between(self, bounds: np.ndarray) -> np.ndarray:
        """The bits of each span between bounds that this model shares."""
        sums = np.concatenate([[0.0], np.cumsum(np.where(np.isinf(self.bits), 0.0, self.bits))])
        impossible = np.concatenate([[0], np.cumsum(np.isinf(self.bits))])
        places = np.searchsorted(self.ends, bounds, side="right")
        return np.where(np.diff(impossible[places]) > 0, np.inf, np.diff(sums[places]))


def measure(model: LanguageModel, tokenizer: Tokenizer, text: str) -> Surprise:
    """As `evaluate` scores a document: read after an <eos>, and its own <eos> counted."""
    ids = tokenizer.encode(text)
    stream = np.concatenate([[tokenizer.eos], ids, [tokenizer.eos]]).astype(np.uint32)
    bits = -model.score(stream).astype(np.float64) / NATS_PER_BIT
    ends = _ends(tokenizer, text, ids)
    return Surprise(ends, bits[:-1], float(bits[-1]), tokenizer.is_lossless and model.is_normalised)


def _ends(tokenizer: Tokenizer, text: str, ids: np.ndarray) -> np.ndarray:
    """Where each token ends, in bytes. Where tokens do not spell the text, a word includes the space before it."""
    if tokenizer.is_lossless:
        return np.cumsum([len(tokenizer.token_bytes[id]) for id in ids], dtype=np.int64)
    bytes_before = np.cumsum([0, *(len(character.encode()) for character in text)])
    offsets = tokenizer.backend.encode(text, add_special_tokens=False).offsets
    ends = bytes_before[[end for _, end in offsets]].astype(np.int64)
    ends[-1:] = bytes_before[-1]
    return ends


def common_bounds(found: list[Surprise], data: bytes) -> np.ndarray:
    """The places, in bytes, at which all have a boundary and no character is cut; beginning and end among them."""
    shared = np.flatnonzero((np.frombuffer(data, np.uint8) & 0xC0) != 0x80)
    for each in found:
        shared = np.intersect1d(shared, each.ends)
    return np.unique(np.concatenate([[0], shared, [len(data)]]))


def add_routes(app: FastAPI, service: Service) -> None:
    @post(app, "/compare", Comparing, "The bits of every piece of a text, by every model.")
    async def compare(body: Comparing, request: Request) -> dict[str, Any]:
        library = service.library
        chosen = [library.language(name) for name in dict.fromkeys(body.models)] if body.models else library.languages
        found = [
            await service.engine.run(lambda each=served: measure(each.model, each.tokenizer, body.text))  # type: ignore[misc]
            for served in chosen
        ]
        return _told(body.text, [each.id for each in chosen], found)


def _told(text: str, names: list[str], found: list[Surprise]) -> dict[str, Any]:
    data = text.encode()
    bounds = common_bounds(found, data)
    bits = np.stack([each.between(bounds) for each in found])  # (models, spans)
    characters = np.concatenate([[0], np.cumsum((np.frombuffer(data, np.uint8) & 0xC0) != 0x80)])
    models = []
    for name, each in zip(names, found, strict=True):
        pieces = _pieces(text, characters[[0, *each.ends]])
        tokens = [piece | {"bits": _finite(value)} for piece, value in zip(pieces, each.bits, strict=True)]
        per_byte = _finite(each.total / len(data)) if each.has_measure else None
        told = {"model": name, "tokens": tokens, "end_bits": _finite(each.end_bits)}
        models.append(told | {"bits": _finite(each.total), "bits_per_byte": per_byte})
    spans = [
        piece | {"bits": [_finite(value) for value in column]}
        for piece, column in zip(_pieces(text, characters[bounds]), bits.T, strict=True)
    ]
    places = disagreements(bits) if len(found) > 1 else []
    return {"bytes": len(data), "models": models, "spans": spans, "disagreements": places}


def _pieces(text: str, bounds: np.ndarray) -> list[dict[str, Any]]:
    """DecodingBatch they are the text: a character that has several tokens belongs to the first."""
    return [{"text": text[begin:end], "begin": begin, "end": end} for begin, end in pairwise(bounds.tolist())]


def disagreements(bits: np.ndarray) -> list[int]:
    """The spans where the largest and the smallest bits of any two models are farthest apart, the farthest first."""
    finite = np.minimum(bits, 1e6)  # what is impossible for one is the largest disagreement
    apart = finite.max(0) - finite.min(0)
    order: list[int] = np.argsort(-apart, kind="stable")[:PLACES].tolist()
    return [each for each in order if apart[each] > 0]


def _finite(bits: float) -> float | None:
    """None: impossible."""
    return float(bits) if np.isfinite(bits) else None
