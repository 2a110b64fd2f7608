"""/v1/translate: the best texts that a run writes from others. /alignment: which word came from which, for the page."""

import asyncio
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Request
from pydantic import Field

from chainrule.generation.beam import Beam, Found
from chainrule.serving.answers import TranslationAnswer
from chainrule.serving.ask import hear
from chainrule.serving.jobs import GenerationJob, Translating
from chainrule.serving.library import ServedModel
from chainrule.serving.problems import Problem
from chainrule.serving.schema import MOST_TOKENS, Body, ModelName, Number, ShownText, Text, post
from chainrule.serving.service import Service
from chainrule.serving.stream import while_heard
from chainrule.tasks._pairs import PairTask

MOST_TEXTS = 256
ROWS_AT_ONCE = 64  # of one request in the engine's queue, so that others find room between them
MOST_ALIGNED = 128  # tokens of a source that is looked into
Width = Annotated[int, Field(ge=1, le=64, description="How many beginnings are kept; 1 is greedy.")]


class Translate(Body):
    """What `chainrule translate` can be told. Of each text, the best and `n` - 1 others."""

    model: ModelName = None
    text: Text | Annotated[list[Text], Field(min_length=1, max_length=MOST_TEXTS, fail_fast=True)]
    beam: Width = 5
    n: Annotated[int, Field(ge=1, le=64)] = 1
    length_penalty: Annotated[Number, Field(ge=-10, le=10, description="Above 0 favours long texts.")] = 1.0
    max_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] = 200
    alignments: bool = Field(False, description="Tell which words came from which: '0-0 1-2', source first.")

    @property
    def texts(self) -> list[str]:
        return [self.text] if isinstance(self.text, str) else self.text


class Align(Body):
    model: ModelName = None
    text: ShownText
    beam: Width = 5


def add_routes(app: FastAPI, service: Service) -> None:
    @post(app, "/v1/translate", Translate, "Write one text from another.", TranslationAnswer)
    async def translate(body: Translate, request: Request) -> Any:
        served, task = service.library.translator(body.model)
        if body.n > body.beam:
            found = f"a beam of {body.beam} finds no more than {body.beam} texts, and n is {body.n}"
            raise Problem(400, f"{found}; widen the beam", "invalid_value", "n")
        wanted = await asyncio.to_thread(_read, served, task, body)
        return await while_heard(request, _translated(service, served, task, body, wanted))

    @post(app, "/alignment", Align, "Explain a translation.")
    async def align(body: Align, request: Request) -> Any:
        served, task = service.library.translator(body.model)
        return await service.engine.run(partial(_aligned, task, served.model, body))


def _read(served: ServedModel, task: PairTask, body: Translate) -> list[Translating | None]:
    """Each text as the engine wants it; None where there is nothing to translate."""
    longest = task.longest(served.model)
    beam = Beam(body.beam, body.length_penalty, body.max_tokens, body.n)
    wanted: list[Translating | None] = []
    for number, text in enumerate(body.texts, start=1):
        source = task.encode_source(text)
        if len(source) > longest:
            name = "the text" if isinstance(body.text, str) else f"text {number} of {len(body.text)}"
            what = f"{name} has {len(source)} tokens but this model reads {longest}; shorten it"
            raise Problem(400, what, "context_length_exceeded", "text")
        is_empty = len(source) == 0
        wanted.append(None if is_empty else Translating(served, task.condition([source]), task.beam_for(source, beam)))
    return wanted


async def _translated(
    service: Service, served: ServedModel, task: PairTask, body: Translate, wanted: list[Translating | None]
) -> dict[str, Any]:
    asked = [each for each in wanted if each is not None]
    found: dict[GenerationJob, list[Found]] = {}
    together = max(ROWS_AT_ONCE // body.beam, 1)
    for first in range(0, len(asked), together):
        async with aclosing(hear(service, asked[first : first + together])) as heard:
            async for one, texts in heard:
                found[one] = texts
    translations = []
    for source, each in zip(body.texts, wanted, strict=True):
        targets = [_told(task, one) for one in found[each]] if each else [NOTHING]
        if body.alignments:
            texts = [target["text"] for target in targets]
            links = await service.engine.run(partial(_links, task, served.model, source, texts))
            targets = [target | {"alignment": link} for target, link in zip(targets, links, strict=True)]
        translations.append(targets[0] | {"others": targets[1:]})
    read = sum(each.length - 1 for each in asked)  # without eos
    written = sum(len(one.ids) for each in found.values() for one in each)
    service.metrics.prompt_tokens.labels(served.id).inc(read)
    service.metrics.generated_tokens.labels(served.id).inc(written)
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    return {"object": "translation", "model": served.id, "translations": translations, "usage": usage}


NOTHING = {"text": "", "score": None, "finish_reason": "stop"}  # of an empty text


def _told(task: PairTask, found: Found) -> dict[str, Any]:
    reason = "stop" if found.finish_reason == "eos" else found.finish_reason
    return {"text": task.text_of(found), "score": found.score, "finish_reason": reason}


def _links(task: PairTask, model: Any, source: str, texts: list[str]) -> list[str]:
    from chainrule.analysis.explain.alignment import link_words  # with torch, which models that count do without

    return [link_words(task, model, source, text) for text in texts]


def _aligned(task: PairTask, model: Any, body: Align) -> dict[str, Any]:
    """What `chainrule explain --json` tells of a translation."""
    from chainrule.analysis.explain.alignment import explain_translation

    length = len(task.encode_source(body.text))
    most = min(MOST_ALIGNED, task.longest(model))
    if length > most:
        what = f"the text has {length} tokens, and no more than {most} can be looked into; shorten it"
        raise Problem(400, what, "context_length_exceeded", "text")
    return explain_translation(task, model, body.text, body.beam).to_json()
