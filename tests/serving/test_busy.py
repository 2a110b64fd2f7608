"""A full queue answers at once, and the server stays well."""

from collections.abc import Callable
from typing import Any

import openai
import pytest

from tests.serving.conftest import error_of
from tests.serving.raw import Raw
from tests.serving.test_disconnect import ENDLESS, wait_for


def test_what_is_too_much_is_told_to_come_again(serve: Callable[..., Any]):
    with serve("herd", "cows", "--rows", "2", "--waiting", "4") as live, live.http() as http, Raw(live.port) as first:
        first.send({**ENDLESS, "n": 2})
        wait_for(live, decoding=2)
        waiting = [Raw(live.port) for _ in range(2)]
        for each in waiting:
            each.send({**ENDLESS, "n": 2})
        wait_for(live, decoding=2, waiting=4)
        for model, extra in (("herd", {}), ("cows", {"stream": True})):  # the queue is one for all models
            answer = http.post("/v1/completions", json={"model": model, "prompt": "on", **extra})
            assert answer.status_code == 429 and answer.headers["retry-after"] == "1"
            assert error_of(answer)["type"] == "rate_limit_error"
        assert live.health() == {"status": "ok", "waiting": 4, "decoding": 2}
        ai = openai.OpenAI(base_url=f"{live.url}/v1", api_key="x", max_retries=0)
        with ai, pytest.raises(openai.RateLimitError):
            ai.completions.create(model="herd", prompt="on")
        for each in (first, *waiting):
            each.socket.close()
        wait_for(live, decoding=0, waiting=0)
        assert http.post("/v1/completions", json={"model": "cows", "prompt": "on"}).status_code == 200
