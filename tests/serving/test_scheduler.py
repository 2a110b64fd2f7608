"""The scheduler by itself: who decodes together, who waits, who is let go."""

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from chainrule.generation import Beam, Sampling, sample
from chainrule.generation.batch import SampleBatch
from chainrule.generation.prompt import read_prompt
from chainrule.generation.search import search
from chainrule.models.conditional import Config, Model
from chainrule.serving.errors import APIError
from chainrule.serving.jobs import BeamSearchJob, SamplingJob
from chainrule.serving.scheduler import Scheduler, SchedulerLimits
from tests.generation.toys import TableBigram, Total, letters, random_table
from tests.serving.running import run_apart

TOKENIZER = letters(5)
TABLE = random_table(6, seed=3)
ENDLESS = np.where(np.arange(6) == TOKENIZER.eos, -np.inf, TABLE)  # its samples end by length alone


@dataclass(frozen=True, eq=False)
class Toy:
    """What the scheduler needs of a served run."""

    id: str
    model: Any
    tokenizer: Any = TOKENIZER


def generating(toy: Toy, prompt: str, seed: int, max_tokens: int = 20, samples: int = 1) -> SamplingJob:
    sampling = Sampling(seed=seed, max_tokens=max_tokens, samples=samples)
    return SamplingJob(toy, read_prompt(toy.model, TOKENIZER, prompt, truncate=False), sampling)  # type: ignore[arg-type]


async def hear(job: SamplingJob) -> str:
    """All of its text; what ends it badly is raised."""
    text = ""
    while (answer := (await job.updates.get())[1]) is not None:
        if isinstance(answer, Exception):
            raise answer
        text += "".join(token.text for token in answer)
    return text


def run(work, limits: SchedulerLimits | None = None):
    """`work(scheduler)` in a loop of its own."""

    async def main():
        scheduler = Scheduler(limits)
        scheduler.start()
        try:
            return await asyncio.wait_for(work(scheduler), 60)
        finally:
            scheduler.stop()

    return run_apart(main())


class Watched(Total):
    """Remembers how many rows each step had, and can be held up."""

    def __init__(self, table: np.ndarray):
        super().__init__(table)
        self.widths: list[int] = []

    def step(self, tokens, state):
        self.widths.append(len(tokens))
        return super().step(tokens, state)


def test_many_requests_decode_together_and_say_what_each_says_alone():
    toy = Toy("toy", Watched(TABLE))
    prompts = ["", "a", "ab", "edc", "bbb", "c"]

    async def work(scheduler: Scheduler):
        jobs = [generating(toy, prompts[i % 6], seed=i) for i in range(64)]
        await scheduler.submit(*jobs)
        return await asyncio.gather(*map(hear, jobs))

    found = run(work)
    assert max(toy.model.widths) > 8
    for i, text in enumerate(found):
        alone = sample(Total(TABLE), TOKENIZER, prompts[i % 6], Sampling(seed=i, max_tokens=20))[0]
        assert text == alone.text


def test_models_take_turns():
    """A model whose sample never ends does not keep another from answering."""
    endless, other = Toy("endless", Total(ENDLESS)), Toy("other", TableBigram(TABLE))

    async def work(scheduler: Scheduler):
        long, short = generating(endless, "a", 1, max_tokens=10**9), generating(other, "a", 2)
        await scheduler.submit(long)
        await scheduler.submit(short)
        text = await hear(short)
        scheduler.cancel(long)
        return text

    assert run(work) == sample(other.model, TOKENIZER, "a", Sampling(seed=2, max_tokens=20))[0].text


def test_no_more_rows_than_allowed_decode_together():
    toy = Toy("toy", Watched(ENDLESS))

    async def work(scheduler: Scheduler):
        jobs = [generating(toy, "a", seed, samples=2) for seed in range(7)]
        await scheduler.submit(*jobs)
        await asyncio.gather(*map(hear, jobs))

    run(work, SchedulerLimits(rows=4))
    assert max(toy.model.widths) == 4


def test_what_waits_too_long_a_queue_is_refused_at_once_and_counts_come_back_to_zero():
    toy = Toy("toy", Total(ENDLESS))

    async def work(scheduler: Scheduler):
        first = generating(toy, "a", 1, max_tokens=10**9)
        await scheduler.submit(first)
        await first.updates.get()  # it decodes, so the others wait
        waiting = [generating(toy, "a", seed) for seed in range(3)]
        await scheduler.submit(*waiting)
        with pytest.raises(APIError, match="3 samples are waiting already") as refused:
            await scheduler.submit(generating(toy, "a", 9))
        assert refused.value.status_code == 429
        assert refused.value.headers == {"Retry-After": "1"}
        assert (scheduler.decoding, scheduler.waiting) == (1, 3)
        scheduler.cancel(first, *waiting)
        while scheduler.decoding or scheduler.waiting:
            await asyncio.sleep(0.001)

    run(work, SchedulerLimits(rows=1, waiting=3))


def test_one_request_that_fails_does_not_touch_the_others():
    table = ENDLESS.copy()
    table[:, 4] = -np.inf  # only a prompt says e,
    table[4] = -np.inf  # and after it nothing can come
    toy = Toy("toy", TableBigram(table))

    async def work(scheduler: Scheduler):
        stuck, fine = generating(toy, "e", 1, samples=2), generating(toy, "a", 2)
        await scheduler.submit(stuck, fine)
        with pytest.raises(Exception, match="probability zero"):
            await hear(stuck)
        text = await hear(fine)
        while scheduler.decoding or scheduler.waiting:
            await asyncio.sleep(0.001)
        return text

    assert len(run(work)) == 20


def test_a_model_that_breaks_ends_its_batch_and_the_next_request_is_answered():
    class Broken(TableBigram):
        is_broken = False

        def step(self, tokens, state):
            if self.is_broken:
                raise ZeroDivisionError("inside")
            return super().step(tokens, state)

    toy = Toy("toy", Broken(ENDLESS))

    async def work(scheduler: Scheduler):
        jobs = [generating(toy, "a", seed, max_tokens=10**9) for seed in range(2)]
        await scheduler.submit(*jobs)
        for each in jobs:
            await each.updates.get()
        toy.model.is_broken = True
        for each in jobs:
            with pytest.raises(ZeroDivisionError):
                await hear(each)
        toy.model.is_broken = False
        last = generating(toy, "a", 3)
        await scheduler.submit(last)
        text = await hear(last)
        while scheduler.decoding or scheduler.waiting:
            await asyncio.sleep(0.001)
        return text

    assert run(work) == sample(TableBigram(ENDLESS), TOKENIZER, "a", Sampling(seed=3, max_tokens=20))[0].text


def test_other_work_has_its_turn_while_samples_are_drawn_and_its_errors_are_its_own():
    toy = Toy("toy", Total(ENDLESS))

    async def work(scheduler: Scheduler):
        long = generating(toy, "a", 1, max_tokens=10**9)
        await scheduler.submit(long)
        await long.updates.get()
        assert await scheduler.run(lambda: 6 * 7) == 42
        with pytest.raises(ZeroDivisionError):
            await scheduler.run(lambda: 1 // 0)
        assert scheduler.decoding == 1
        scheduler.cancel(long)

    run(work)


class Panic(BaseException):
    """As libraries in Rust raise it."""


def test_a_panic_ends_one_request_and_the_others_go_on():
    class Panicking(Total):
        def step(self, tokens, state):
            if tokens.shape[1] == 4:
                raise Panic("index out of bounds")
            return super().step(tokens, state)

    def panic() -> None:
        raise Panic("elsewhere")

    toy = Toy("toy", Panicking(ENDLESS))

    async def work(scheduler: Scheduler):
        good, bad = generating(toy, "a", 1, max_tokens=500), generating(toy, "abc", 2)
        await scheduler.submit(good, bad)
        with pytest.raises(RuntimeError, match="Panic: index out of bounds"):
            await hear(bad)
        with pytest.raises(RuntimeError, match="Panic: elsewhere"):
            await scheduler.run(panic)
        assert len(await hear(good)) == 500
        assert await scheduler.run(lambda: 6 * 7) == 42

    run(work)


@pytest.mark.parametrize("when", ["step", "emit"])
def test_a_panic_of_a_batch_ends_it_and_the_next_request_is_answered(when: str, monkeypatch):
    toy = Toy("toy", Total(ENDLESS))

    def panic(*all: Any) -> None:
        raise Panic("inside")

    async def work(scheduler: Scheduler):
        job = generating(toy, "a", 1, max_tokens=10**9)
        await scheduler.submit(job)
        await job.updates.get()
        with monkeypatch.context() as broken:
            broken.setattr(*((toy.model, "step") if when == "step" else (SampleBatch, "emit")), panic)
            with pytest.raises(RuntimeError, match="Panic: inside"):
                await hear(job)
        last = generating(toy, "a", 3)
        await scheduler.submit(last)
        return await hear(last)

    assert len(run(work)) == 20


def test_told_to_stop_it_takes_nothing_new_and_ends_what_is_left_when_the_time_is_up():
    toy = Toy("toy", Total(ENDLESS))

    async def work(scheduler: Scheduler):
        short, long = generating(toy, "a", 1), generating(toy, "a", 2, max_tokens=10**9)
        await scheduler.submit(short, long)
        scheduler.drain()
        for refused in (scheduler.submit(generating(toy, "a", 3)), scheduler.run(lambda: 0)):
            with pytest.raises(APIError, match="shutting down") as problem:
                await refused
            assert problem.value.status_code == 503
        text = await hear(short)
        with pytest.raises(APIError, match="shutting down"):
            await hear(long)
        return text

    assert len(run(work, SchedulerLimits(shutdown_seconds=0.3))) == 20


def test_a_prompt_that_is_only_read_tells_its_logits():
    toy, told = Toy("toy", TableBigram(TABLE)), []

    async def work(scheduler: Scheduler):
        job = generating(toy, "ab", 1)
        job.sampling, job.on_logits = None, told.append
        await scheduler.submit(job)
        assert await hear(job) == ""
        assert (scheduler.decoding, scheduler.waiting) == (0, 0)

    run(work)
    np.testing.assert_allclose(np.concatenate(told), TABLE[[5, 0, 1]])


def test_a_long_prompt_is_read_in_pieces_while_others_are_answered():
    toy = Toy("toy", Watched(ENDLESS))

    async def work(scheduler: Scheduler):
        short = generating(toy, "a", 1, max_tokens=10**9)
        await scheduler.submit(short)
        await short.updates.get()
        long = generating(toy, "ab" * 5000, 2, max_tokens=3)
        await scheduler.submit(long)
        before = short.updates.qsize()
        text = await hear(long)
        meanwhile = short.updates.qsize() - before
        scheduler.cancel(short)
        return text, meanwhile

    text, meanwhile = run(work)
    assert text == sample(Total(ENDLESS), TOKENIZER, "ab" * 5000, Sampling(seed=2, max_tokens=3))[0].text
    assert meanwhile >= 10_000 // 512  # at least one token of the other for each piece


def test_counts_are_zero_once_everything_is_ended():
    toy = Toy("toy", Total(ENDLESS))

    async def work(scheduler: Scheduler):
        jobs = [generating(toy, "a", seed, max_tokens=10**9) for seed in range(4)]
        await scheduler.submit(*jobs)
        await jobs[0].updates.get()
        scheduler.abort()
        for each in jobs:
            with pytest.raises(APIError, match="shutting down"):
                await hear(each)
        assert (scheduler.decoding, scheduler.waiting) == (0, 0)

    run(work, SchedulerLimits(rows=2))


class Watching(Model):
    """Translates at random, remembers how many rows each step had, and can be broken."""

    def __init__(self, is_endless: bool = False):
        torch.manual_seed(3)
        super().__init__(
            Config("gru", "gru", "additive", width=16, encoder_layers=1, decoder_layers=1), 6, TOKENIZER.eos
        )
        with torch.no_grad():
            for parameter in self.parameters():
                parameter += torch.randn_like(parameter) * 0.3
            self.output_bias[TOKENIZER.eos] -= 1e6 if is_endless else 0
        self.eval()
        self.widths: list[int] = []
        self.is_broken = False

    def step(self, tokens, state):
        self.widths.append(len(tokens))
        if self.is_broken:
            raise ZeroDivisionError("inside")
        return super().step(tokens, state)


def translating(toy: Toy, source: list[int], beam: Beam) -> BeamSearchJob:
    ids = [*source, TOKENIZER.eos]
    return BeamSearchJob(toy, {"source": np.array([ids]), "lengths": np.array([len(ids)])}, beam)  # type: ignore[arg-type]


async def found(job: BeamSearchJob) -> list[Any]:
    """Its best targets; what ends it badly is raised."""
    texts: list[Any] = []
    while (answer := (await job.updates.get())[1]) is not None:
        if isinstance(answer, Exception):
            raise answer
        texts += answer
    return texts


def test_sources_are_searched_together_beside_samples_and_find_what_each_finds_alone():
    toy, other = Toy("translator", Watching()), Toy("toy", Total(TABLE))
    sources = [[i % 5, (i * i) % 5, i % 3][: 1 + i % 3] for i in range(20)]
    beams = [Beam(1 + i % 4, 1.0, 3 + i % 9, 1 + i % 2 * (i % 4 > 0)) for i in range(20)]

    async def work(scheduler: Scheduler):
        jobs = [translating(toy, *each) for each in zip(sources, beams, strict=True)]
        samples = [generating(other, "a", seed) for seed in range(4)]
        for each in (*jobs, *samples):  # one after the other, so that they join while others are under way
            await scheduler.submit(each)
            await asyncio.sleep(0.001)
        texts = await asyncio.gather(*map(found, jobs))
        said = await asyncio.gather(*map(hear, samples))
        while scheduler.decoding or scheduler.waiting:
            await asyncio.sleep(0.001)
        return texts, said

    texts, said = run(work)
    assert max(toy.model.widths) > 4
    for source, beam, each in zip(sources, beams, texts, strict=True):
        alone = search(toy.model, translating(toy, source, beam).condition, TOKENIZER.eos, [beam])[0]
        assert [one.ids for one in each] == [one.ids for one in alone]
        assert [one.score for one in each] == pytest.approx([one.score for one in alone], abs=1e-5)
    for seed, text in enumerate(said):
        assert text == sample(Total(TABLE), TOKENIZER, "a", Sampling(seed=seed, max_tokens=20))[0].text


def test_beams_take_as_many_rows_as_they_are_wide():
    toy = Toy("translator", Watching(is_endless=True))

    async def work(scheduler: Scheduler):
        jobs = [translating(toy, [i], Beam(3, 1.0, 6)) for i in range(5)]
        await scheduler.submit(*jobs)
        await asyncio.gather(*map(found, jobs))
        while scheduler.decoding or scheduler.waiting:
            await asyncio.sleep(0.001)

    run(work, SchedulerLimits(rows=7))
    assert max(toy.model.widths) == 6  # two of width three


def test_a_source_whose_client_has_gone_frees_its_rows_and_those_that_wait_are_forgotten():
    toy = Toy("translator", Watching(is_endless=True))

    async def work(scheduler: Scheduler):
        long = [translating(toy, [i], Beam(3, 1.0, 10**6)) for i in range(3)]
        await scheduler.submit(*long)
        while (scheduler.decoding, scheduler.waiting) != (6, 3):
            await asyncio.sleep(0.001)
        scheduler.cancel(long[0], long[2])
        while (scheduler.decoding, scheduler.waiting) != (3, 0):
            await asyncio.sleep(0.001)
        scheduler.cancel(long[1])
        while scheduler.decoding:
            await asyncio.sleep(0.001)

    run(work, SchedulerLimits(rows=6))


def test_a_translator_that_breaks_ends_its_searches_and_the_next_source_is_answered():
    toy = Toy("translator", Watching(is_endless=True))

    async def work(scheduler: Scheduler):
        jobs = [translating(toy, [i], Beam(2, 1.0, 10**6)) for i in range(2)]
        await scheduler.submit(*jobs)
        while scheduler.decoding != 4:
            await asyncio.sleep(0.001)
        toy.model.is_broken = True
        for each in jobs:
            with pytest.raises(ZeroDivisionError):
                await found(each)
        toy.model.is_broken = False
        last = translating(toy, [1], Beam(2, 1.0, 5))
        await scheduler.submit(last)
        return await found(last)

    texts = run(work)
    alone = search(toy.model, translating(toy, [1], Beam(2)).condition, TOKENIZER.eos, [Beam(2, 1.0, 5)])[0]
    assert [one.ids for one in texts] == [one.ids for one in alone]


def test_told_to_stop_a_search_that_does_not_end_in_time_hears_it():
    toy = Toy("translator", Watching(is_endless=True))

    async def work(scheduler: Scheduler):
        short, long = translating(toy, [1], Beam(2, 1.0, 5)), translating(toy, [2], Beam(2, 1.0, 10**6))
        await scheduler.submit(short, long)
        scheduler.drain()
        with pytest.raises(APIError, match="shutting down"):
            await scheduler.submit(translating(toy, [3], Beam(2)))
        texts = await found(short)
        with pytest.raises(APIError, match="shutting down"):
            await found(long)
        assert (scheduler.decoding, scheduler.waiting) == (0, 0)
        return texts

    assert len(run(work, SchedulerLimits(shutdown_seconds=0.5))) == 1
