"""A client that goes away frees its rows, however many tokens it had asked for."""

import time

import pytest

from tests.serving.conftest import PATIENCE, Live
from tests.serving.raw import Raw

ENDLESS = {"model": "herd", "prompt": "on day", "temperature": 0, "max_tokens": 16384, "n": 8}


def wait_for(live: Live, **counts: int) -> None:
    ends_at = time.monotonic() + PATIENCE
    while (health := live.health()) | counts != health:
        assert time.monotonic() < ends_at, health
        time.sleep(0.01)


@pytest.mark.parametrize("streams", [True, False])
def test_rows_of_a_client_that_went_away_are_free(live: Live, streams: bool):
    with Raw(live.port) as client:
        client.send({**ENDLESS, "stream": streams})
        wait_for(live, decoding=8)
        if streams:
            assert b"data: {" in client.read_until(b"\n\n\r\n")
    tokens = _drawn(live)
    wait_for(live, decoding=0, waiting=0)
    assert _drawn(live) - tokens < 8 * 16384 / 4  # far from the end of what it had asked for


def test_those_that_wait_are_forgotten_too(live: Live):
    """64 rows decode; a request that needs as many more waits, and leaves before its turn."""
    with Raw(live.port) as first, Raw(live.port) as second:
        first.send({**ENDLESS, "n": 64})
        wait_for(live, decoding=64)
        second.send({**ENDLESS, "n": 64, "stream": True})
        wait_for(live, waiting=64)
        second.socket.close()
        first.socket.close()
        wait_for(live, decoding=0, waiting=0)


def test_beams_of_a_client_that_went_away_are_free(live: Live):
    """200 texts, each for a beam of 64 and hundreds of steps: one at a time, as 64 rows are all there are; the rest of
    the request does not stand in the queue, where there is room for other people's."""
    with Raw(live.port) as client:
        client.send({"model": "cross", "text": ["rot blau " * 100] * 200, "beam": 64, "n": 64}, "/v1/translate")
        wait_for(live, decoding=64)
        assert live.health()["waiting"] == 0
    wait_for(live, decoding=0, waiting=0)


def _drawn(live: Live) -> float:
    with live.http() as http:
        lines = http.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("chainrule_generated_tokens_total"))
