"""From jobs to their results: submit them to the scheduler, yield what comes, and cancel them if the client leaves."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

from chainrule.generation import Token
from chainrule.serving.jobs import AnyJob, DecodingRow, GenerationJob, JobUpdate
from chainrule.serving.model_provider import ServedModel
from chainrule.serving.prompts import PromptRequest
from chainrule.serving.scheduler import Scheduler
from chainrule.serving.service import Service

RowT = TypeVar("RowT", bound=DecodingRow)
ResultT = TypeVar("ResultT")
JobResults = AsyncGenerator[tuple[GenerationJob[RowT, ResultT], list[ResultT]], None]
TokenStream = AsyncGenerator[tuple[PromptRequest, list[Token]], None]  # new tokens of some samples of a prompt


async def stream_results(
    scheduler: Scheduler, jobs: Sequence[GenerationJob[RowT, ResultT]]
) -> JobResults[RowT, ResultT]:
    """The results of some jobs as they come; closing the generator cancels the jobs."""
    updates: asyncio.Queue[JobUpdate] = asyncio.Queue()
    for job in jobs:
        job.updates = updates
    await scheduler.submit(*jobs)
    running: set[AnyJob] = set(jobs)
    try:
        while running:
            job, update = await updates.get()
            if isinstance(update, Exception):
                raise update
            if update is None:
                running.remove(job)
            else:
                yield job, update
    finally:
        scheduler.cancel(*jobs)


async def stream_tokens(service: Service, served: ServedModel, requests: Sequence[PromptRequest]) -> TokenStream:
    """The tokens drawn for the prompts of one request, as they come; and their metrics."""
    started_at, is_first = time.perf_counter(), True
    metrics = service.metrics
    metrics.prompt_tokens.labels(served.id).inc(sum(len(each.ids) for each in requests))
    owners = {each.job: each for each in requests}
    async with aclosing(stream_results(service.scheduler, [each.job for each in requests])) as results:
        async for job, tokens in results:
            if is_first:
                metrics.first_token.labels(served.id).observe(time.perf_counter() - started_at)
                is_first = False
            metrics.generated_tokens.labels(served.id).inc(len(tokens))
            yield owners[job], tokens  # type: ignore[index]
