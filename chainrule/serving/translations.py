"""/v1/translate: the best targets by beam search. /alignment: which words of a target came from which of the source."""

import asyncio
from contextlib import aclosing
from functools import partial
from typing import Annotated, cast

from fastapi import FastAPI, Request
from pydantic import Field

from chainrule.generation.beam import Beam, Hypothesis
from chainrule.models.contract import LanguageModel
from chainrule.serving.errors import APIError
from chainrule.serving.generate import stream_results
from chainrule.serving.jobs import AnyJob, BeamSearchJob
from chainrule.serving.model_provider import ServedModel
from chainrule.serving.prompts import CONTEXT_LENGTH_EXCEEDED
from chainrule.serving.requests import MOST_TOKENS, ModelName, Number, RequestBody, ShownText, Text
from chainrule.serving.responses import JsonObject, TranslationResponse, declare
from chainrule.serving.service import Service
from chainrule.serving.streaming import until_disconnect
from chainrule.tasks._pairs import PairTask

MOST_TEXTS = 256
MOST_QUEUED_ROWS = 64  # of one request at a time, so that others find room between them
MOST_ALIGNED = 128  # tokens of a source that is analysed
Width = Annotated[int, Field(ge=1, le=64, description="The width of the beam; 1 is greedy.")]


class TranslationRequest(RequestBody):
    """The options of `chainrule translate`; for each text, the best target and `n` - 1 others are returned."""

    model: ModelName = None
    text: Text | Annotated[list[Text], Field(min_length=1, max_length=MOST_TEXTS, fail_fast=True)]
    beam: Width = 5
    n: Annotated[int, Field(ge=1, le=64)] = 1
    length_penalty: Annotated[Number, Field(ge=-10, le=10, description="Above 0 favours long texts.")] = 1.0
    max_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] = 200
    alignments: bool = Field(False, description="Add the word alignment: '0-0 1-2', source first.")

    @property
    def texts(self) -> list[str]:
        return [self.text] if isinstance(self.text, str) else self.text


class AlignmentRequest(RequestBody):
    model: ModelName = None
    text: ShownText
    beam: Width = 5


def add_routes(app: FastAPI, service: Service) -> None:
    @app.post(
        "/v1/translate",
        summary="Translate or summarise texts.",
        response_model=None,
        responses=declare(TranslationResponse),
    )
    async def translate(body: TranslationRequest, request: Request) -> JsonObject:
        served, task = service.models.translator(body.model)
        if body.n > body.beam:
            sentence = f"n must be at most the width of the beam, got n {body.n} and beam {body.beam}; use a wider beam"
            raise APIError(400, sentence, "invalid_value", "n")
        jobs = await asyncio.to_thread(_make_jobs, served, task, body)
        return await until_disconnect(request, _translate(service, served, task, body, jobs))

    @app.post("/alignment", summary="Explain a translation.", response_model=None, responses=declare())
    async def align(body: AlignmentRequest) -> JsonObject:
        served, task = service.models.translator(body.model)
        return await service.scheduler.run(partial(_align, task, served.model, body))


def _make_jobs(served: ServedModel, task: PairTask, body: TranslationRequest) -> list[BeamSearchJob | None]:
    """A job for each text; None for an empty one."""
    longest = task.longest(served.model)
    beam = Beam(body.beam, body.length_penalty, body.max_tokens, body.n)
    jobs: list[BeamSearchJob | None] = []
    for number, text in enumerate(body.texts, start=1):
        source = task.encode_source(text)
        if len(source) > longest:
            name = "the text" if isinstance(body.text, str) else f"text {number} of {len(body.text)}"
            sentence = f"{name} has {len(source)} tokens but this model reads {longest}; shorten it"
            raise APIError(400, sentence, CONTEXT_LENGTH_EXCEEDED, "text")
        if len(source):
            jobs.append(BeamSearchJob(served, task.condition([source]), task.beam_for(source, beam)))
        else:
            jobs.append(None)
    return jobs


async def _translate(
    service: Service,
    served: ServedModel,
    task: PairTask,
    body: TranslationRequest,
    jobs: list[BeamSearchJob | None],
) -> JsonObject:
    searches = [job for job in jobs if job is not None]
    best = await _search(service, searches, max(MOST_QUEUED_ROWS // body.beam, 1))
    translations: list[JsonObject] = []
    for source, job in zip(body.texts, jobs, strict=True):
        texts = [task.text_of(each) for each in best[job]] if job else [""]
        targets = [_to_json(*each) for each in zip(texts, best[job], strict=True)] if job else [EMPTY_TARGET]
        if body.alignments:
            links = await service.scheduler.run(partial(_links, task, served.model, source, texts))
            targets = [target | {"alignment": link} for target, link in zip(targets, links, strict=True)]
        translations.append(targets[0] | {"others": targets[1:]})
    read = sum(job.length - 1 for job in searches)  # without eos
    written = sum(len(each.ids) for found in best.values() for each in found)
    service.metrics.prompt_tokens.labels(served.id).inc(read)
    service.metrics.generated_tokens.labels(served.id).inc(written)
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    return {"object": "translation", "model": served.id, "translations": translations, "usage": usage}


async def _search(service: Service, jobs: list[BeamSearchJob], at_once: int) -> dict[AnyJob, list[Hypothesis]]:
    """The hypotheses of every job, best first; at most `at_once` jobs are submitted at a time."""
    best: dict[AnyJob, list[Hypothesis]] = {}
    for first in range(0, len(jobs), at_once):
        async with aclosing(stream_results(service.scheduler, jobs[first : first + at_once])) as results:
            async for job, hypotheses in results:
                best[job] = hypotheses
    return best


EMPTY_TARGET: JsonObject = {"text": "", "score": None, "finish_reason": "stop"}  # for an empty source


def _to_json(text: str, hypothesis: Hypothesis) -> JsonObject:
    reason = "stop" if hypothesis.finish_reason == "eos" else hypothesis.finish_reason
    return {"text": text, "score": hypothesis.score, "finish_reason": reason}


def _links(task: PairTask, model: LanguageModel, source: str, texts: list[str]) -> list[str]:
    from chainrule.analysis.explain.alignment import ReadsSource, link_words  # imports torch

    return [link_words(task, cast(ReadsSource, model), source, text) for text in texts]


def _align(task: PairTask, model: LanguageModel, body: AlignmentRequest) -> JsonObject:
    """What `chainrule explain --json` prints for a translation."""
    from chainrule.analysis.explain.alignment import ReadsSource, explain_translation

    length = len(task.encode_source(body.text))
    most = min(MOST_ALIGNED, task.longest(model))
    if length > most:
        sentence = f"the text has {length} tokens, and no more than {most} can be analysed; shorten it"
        raise APIError(400, sentence, CONTEXT_LENGTH_EXCEEDED, "text")
    return explain_translation(task, cast(ReadsSource, model), body.text, body.beam).to_json()
