"""A request is answered alike alone and among many."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.serving.conftest import PATIENCE, Live
from tests.serving.running import run_apart


async def ask_all(live: Live, bodies: list[dict[str, Any]]) -> list[Any]:
    """All at once, each on a connection of its own."""
    async with httpx.AsyncClient(base_url=live.url, timeout=PATIENCE, trust_env=False) as http:
        answers = await asyncio.gather(*(http.post("/v1/completions", json=body) for body in bodies))
    assert {answer.status_code for answer in answers} == {200}
    return [answer.json()["choices"] for answer in answers]


def bodies_of(model: str, count: int) -> list[dict[str, Any]]:
    """Prompts, lengths, filters and wishes of all kinds, so that rows come and go all the time."""
    texts = ["on day", "the red cow", "", "on day 7 the old cow eats", "hay"]
    return [
        {
            "model": model,
            "prompt": texts[seed % 5],
            "seed": seed,
            "max_tokens": 3 + 7 * seed % 29,
            "temperature": (1.0, 0.0, 0.6)[seed % 3],
            "top_k": (0, 5)[seed % 2],
            "n": 1 + seed % 3,
            "logprobs": seed % 4,
            "echo": seed % 7 == 0,
        }
        for seed in range(count)
    ]


@pytest.mark.parametrize(("model", "count"), [("cows", 40), ("lstm", 24), ("transformer", 24)])
def test_among_others_as_alone(live: Live, model: str, count: int):
    bodies = bodies_of(model, count)
    alone = [run_apart(ask_all(live, [body]))[0] for body in bodies]
    together = run_apart(ask_all(live, bodies))
    for ours, theirs in zip(together, alone, strict=True):
        assert [choice["text"] for choice in ours] == [choice["text"] for choice in theirs]
        for choice, other in zip(ours, theirs, strict=True):
            found, wanted = (each["logprobs"]["token_logprobs"] for each in (choice, other))
            assert [each or 0.0 for each in found] == pytest.approx([each or 0.0 for each in wanted], abs=1e-4)


def test_models_side_by_side(live: Live):
    bodies = [body for model in ("cows", "lstm", "transformer") for body in bodies_of(model, 6)]
    alone = [run_apart(ask_all(live, [body]))[0] for body in bodies]
    together = run_apart(ask_all(live, bodies))
    assert [[choice["text"] for choice in each] for each in together] == [
        [choice["text"] for choice in each] for each in alone
    ]
