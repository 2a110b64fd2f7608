"""Told to stop, the server finishes what it can in the time it has, cuts the rest off cleanly, and exits with 0."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.serving.conftest import PATIENCE, error_of, events_of, start
from tests.serving.raw import Raw
from tests.serving.test_disconnect import ENDLESS, wait_for

LONG = {**ENDLESS, "n": 64}  # a million tokens


def body_of(answer: bytes) -> str:
    """Of an answer in chunks: a line with the size of each, then the chunk."""
    rest, found = answer.partition(b"\r\n\r\n")[2], b""
    while (size := int(rest.partition(b"\r\n")[0], 16)) != 0:
        rest = rest.partition(b"\r\n")[2]
        found, rest = found + rest[:size], rest[size + 2 :]
    return found.decode()


def test_what_is_under_way_is_finished_and_what_is_new_refused(folders: dict[str, Path]):
    with start("tests.serving.limited", "600", str(folders["herd"])) as live, Raw(live.port) as client:
        client.send({**ENDLESS, "n": 16, "max_tokens": 3000})
        wait_for(live, decoding=16)
        live.process.send_signal(signal.SIGTERM)
        with live.http() as http:
            refused = _first_refusal(http)
            assert refused.headers["retry-after"] == "1" and error_of(refused)["code"] == "shutting_down"
            assert http.get("/health").status_code == 503
        status, body = client.read_answer()
        assert live.process.wait(PATIENCE) == 0
    assert status == 200 and len(body["choices"]) == 16
    assert body["usage"]["completion_tokens"] == 16 * 3000


def _first_refusal(http: Any) -> Any:
    ends_at = time.monotonic() + PATIENCE
    while (answer := http.post("/v1/completions", json={"prompt": "on", "max_tokens": 1})).status_code == 200:
        assert time.monotonic() < ends_at
    assert answer.status_code == 503
    return answer


def test_a_stream_that_does_not_end_in_time_is_cut_with_an_error(folders: dict[str, Path]):
    with start("tests.serving.limited", "0.5", str(folders["herd"])) as live, Raw(live.port) as client:
        client.send({**LONG, "stream": True})
        wait_for(live, decoding=64)
        live.process.send_signal(signal.SIGTERM)
        events = events_of(body_of(client.read_until(b"\r\n0\r\n\r\n")))
        assert live.process.wait(PATIENCE) == 0
    assert len(events) > 64 and all("choices" in event for event in events[:-1])
    assert events[-1]["error"]["code"] == "shutting_down" and events[-1]["error"]["type"] == "server_error"


def test_an_answer_that_is_not_ready_in_time_is_503(folders: dict[str, Path]):
    with start("tests.serving.limited", "0.5", str(folders["herd"])) as live, Raw(live.port) as client:
        client.send(LONG)
        wait_for(live, decoding=64)
        live.process.send_signal(signal.SIGTERM)
        status, body = client.read_answer()
        assert status == 503 and body["error"]["code"] == "shutting_down"
        assert live.process.wait(PATIENCE) == 0


def test_a_second_signal_ends_it_now(folders: dict[str, Path]):
    with start("tests.serving.limited", "600", str(folders["herd"])) as live, Raw(live.port) as client:
        client.send({**LONG, "stream": True})
        wait_for(live, decoding=64)
        live.process.send_signal(signal.SIGINT)
        with live.http() as http:
            _first_refusal(http)
        live.process.send_signal(signal.SIGINT)
        events = events_of(body_of(client.read_until(b"\r\n0\r\n\r\n")))
        assert events[-1]["error"]["code"] == "shutting_down"
        assert live.process.wait(PATIENCE) == 0


def test_with_nothing_under_way_it_just_ends(serve: Callable[..., Any]):
    with serve("cows") as live:
        live.process.send_signal(signal.SIGTERM)
        assert live.process.wait(PATIENCE) == 0
        assert "Traceback" not in live.said
