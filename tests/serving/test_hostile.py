"""What nobody in good faith would send: refused at once, memory bounded, and the server as well as before."""

import json
import time
from collections.abc import Iterator

import pytest

from tests.serving.conftest import Live
from tests.serving.raw import Raw

SOON = 10.0  # seconds; it takes well under one
ROOM = 256 << 20  # bytes by which the server may have grown, 4 MiB at a time
MEBIBYTE = b"x" * (1 << 20)


@pytest.fixture(autouse=True)
def _unharmed(live: Live) -> Iterator[None]:
    """Afterwards it answers as before and is not much larger."""
    before = live.resident_bytes
    yield
    assert live.health() == {"status": "ok", "waiting": 0, "decoding": 0}
    with live.http() as http:
        answer = http.post("/v1/completions", json={"model": "cows", "prompt": "on day", "max_tokens": 3, "seed": 1})
    assert answer.status_code == 200 and answer.json()["choices"][0]["text"]
    assert live.resident_bytes - before < ROOM
    assert "Traceback" not in live.said


def refused(live: Live, body: bytes, path: str = "/v1/completions", **headers: str) -> tuple[int, str]:
    """The status and the message, once it has been checked that they came soon and in OpenAI's shape."""
    began = time.monotonic()
    with Raw(live.port) as client:
        client.send(body, path, **headers)
        status, answer = client.read_answer()
    assert time.monotonic() - began < SOON
    assert set(answer) == {"error"} and set(answer["error"]) == {"message", "type", "param", "code"}
    assert len(answer["error"]["message"]) < 2000
    return status, answer["error"]["message"]


def filled(**fields: object) -> bytes:
    return json.dumps({"model": "cows", "prompt": "on", **fields}).encode()


BODIES = {
    "nothing": b"",
    "not JSON": b"{",
    "not an object": b"[1]",
    "deep lists": b'{"prompt":' + b"[" * 10**5 + b"]" * 10**5 + b"}",
    "deep objects": b'{"prompt":' + b'{"a":' * 10**5 + b"1" + b"}" * 10**5 + b"}",
    "unclosed lists": b"[" * 10**6,
    "a number of 5,000 digits": b'{"max_tokens":' + b"9" * 5000 + b"}",
    "a number of a million digits": b'{"max_tokens":' + b"9" * 10**6 + b"}",
    "a fraction of a million digits": b'{"temperature":0.' + b"9" * 10**6 + b"e9}",
    "NaN": b'{"temperature":NaN}',
    "infinity": b'{"temperature":-Infinity}',
    "a lone surrogate": b'{"prompt":"\\ud800"}',
    "a lone surrogate as a model": b'{"model":"\\udfff\\ud800"}',
    "a surrogate in bytes": b'{"prompt":"\xed\xa0\x80"}',
    "not UTF-8": b'{"prompt":"\xff\xfe"}',
    "UTF-16": '{"prompt":"on"}'.encode("utf-16"),
    "ten thousand stops": filled(stop=["x"] * 10**4),
    "a stop of a million characters": filled(stop="x" * 10**6),
    "an id of -1": filled(prompt=[-1]),
    "an id of 2**40": filled(prompt=[2**40]),
    "an id of 2**63": filled(prompt=[[2**63]]),
    "a million wrong ids": filled(prompt=[-1] * 10**6),
    "a million wrong lists of ids": filled(prompt=[[-1]] * 5 * 10**5),
    "a million words": filled(prompt=["on"] * 5 * 10**5),
    "a text of three million characters": filled(prompt="x" * 3 * 10**6),
    "two hundred thousand unknown fields": json.dumps({f"f{i}": 1 for i in range(2 * 10**5)}).encode(),
    "the same, deeper": filled(stream_options={f"f{i}": 1 for i in range(2 * 10**5)}),
    "two hundred thousand biases": filled(logit_bias={f"{i}": "x" for i in range(2 * 10**5)}),
    "the same field many times": b"{" + b'"n":65,' * 10**5 + b'"n":65}',
    "a field of a million characters": filled(**{"x" * 10**6: 1}),
    "tokens beyond all bounds": filled(max_tokens=10**9),
    "samples beyond all bounds": filled(n=10**9, best_of=10**9),
    "strings for numbers": filled(max_tokens="5"),
    "true for a number": filled(max_tokens=True),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(live: Live, name: str):
    assert refused(live, BODIES[name])[0] == 400


def source(**fields: object) -> bytes:
    return json.dumps({"text": "rot", **fields}).encode()


TRANSLATIONS = {
    "no text": b"{}",
    "a number for a text": source(text=7),
    "no texts": source(text=[]),
    "null among texts": source(text=["rot", None]),
    "texts in texts": source(text=[["rot"]]),
    "a hundred thousand texts": source(text=["rot"] * 10**5),
    "a text of three million characters": source(text="x" * 3 * 10**6),
    "a text of a hundred thousand words": source(text="rot " * 25_000),
    "a lone surrogate": b'{"text":"\\ud800"}',
    "a lone surrogate among texts": b'{"text":["rot","\\udfff"]}',
    "a surrogate in bytes": b'{"text":"\xed\xa0\x80"}',
    "a width of 0": source(beam=0),
    "a width of 10**9": source(beam=10**9),
    "a width of 10**40": source(beam=10**40),
    "a width of 5.5": source(beam=5.5),
    "true for a width": source(beam=True),
    "a string for a width": source(beam="5"),
    "more texts than the beam": source(beam=2, n=3),
    "texts beyond all bounds": source(n=10**9),
    "a penalty of NaN": b'{"text":"rot","length_penalty":NaN}',
    "a penalty of infinity": b'{"text":"rot","length_penalty":Infinity}',
    "a penalty of 1e308": source(length_penalty=1e308),
    "tokens beyond all bounds": source(max_tokens=10**9),
    "a string for alignments": source(alignments="yes"),
    "a field of completions": source(prompt="rot"),
}


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_translations(live: Live, name: str):
    assert refused(live, TRANSLATIONS[name], "/v1/translate")[0] == 400


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_alignments(live: Live, name: str):
    """What it does not know at all is refused too."""
    assert refused(live, TRANSLATIONS[name], "/alignment")[0] == 400


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/tokenize", "/detokenize", "/v1/translate", "/alignment"])
def test_other_routes_too(live: Live, path: str):
    for name in ("deep lists", "a number of 5,000 digits", "two hundred thousand unknown fields", "not UTF-8"):
        assert refused(live, BODIES[name], path)[0] == 400
    assert refused(live, json.dumps({"messages": [{}] * 10**5, "tokens": [-1] * 10**5}).encode(), path)[0] == 400


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "http://127.0.0.1/x", "cows\0", "", "x" * 4096])
def test_models_that_are_none(live: Live, name: str):
    for path in ("/v1/completions", "/tokenize"):
        status, message = refused(live, filled(model=name) if "v1" in path else _tokenize(name), path)
        assert status == 404 and "there is no model" in message


def _tokenize(model: str) -> bytes:
    return json.dumps({"model": model, "prompt": "on"}).encode()


def test_a_hundred_megabytes_are_refused_before_they_come(live: Live):
    with Raw(live.port) as client:
        client.send(b"", Content_Length=str(100 << 20))
        status, answer = client.read_answer()
    assert status == 413 and answer["error"]["message"] == "the request's body is larger than 4 MiB"


def test_a_client_that_sends_a_hundred_megabytes_hears_why_not(live: Live):
    with live.http() as http:
        answer = http.post(
            "/v1/completions", content=(MEBIBYTE for _ in range(100)), headers={"Content-Length": str(100 << 20)}
        )
        assert answer.status_code == 413
        answer = http.post("/v1/completions", content=(MEBIBYTE for _ in range(100)))  # in chunks, of no known length
        assert answer.status_code == 413


def test_headers_without_an_end(live: Live):
    with Raw(live.port) as client:
        client.socket.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        try:
            for number in range(10**4):
                client.socket.sendall(b"X-%d: " % number + b"x" * 1000 + b"\r\n")
        except OSError:
            return  # it has hung up
        assert client.read_until(b"\r\n\r\n").startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize("host", ["evil.com", "127.0.0.1.evil.com", "", "[", "x" * 10000])
def test_hosts(live: Live, host: str):
    assert refused(live, filled(), Host=host)[0] == 400


@pytest.mark.parametrize("origin", ["http://evil.com", "null", "http://[", "http://127.0.0.1@evil.com", "x" * 10000])
def test_origins(live: Live, origin: str):
    assert refused(live, filled(), Origin=origin)[0] == 400


@pytest.mark.parametrize("length", ["-1", "1e3", "99999999999999999999", "0x10"])
def test_lengths(live: Live, length: str):
    with Raw(live.port) as client:
        client.send(b"", Content_Length=length)
        assert client.read_until(b"\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_addresses(live: Live):
    paths = [
        "/../../etc/passwd",
        "/web/../app.py",
        "/web/%2e%2e/app.py",
        "/web/..%2fapp.py",
        "/%ff%fe",
        "/" + "x" * 5000,
    ]
    for path in paths:
        with Raw(live.port) as client:
            client.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode("latin-1"))
            assert client.read_answer()[0] == 404


def test_stops_of_many_samples_stay_small(live: Live):
    """All beginnings of stop strings are kept for every sample: 64 samples with all the stops that are allowed."""
    stops = [f"{number:03d}" * 66 for number in range(50)]
    with live.http() as http:
        body = {"model": "herd", "prompt": "on", "n": 64, "max_tokens": 2, "stop": stops}
        assert http.post("/v1/completions", json=body).status_code == 200
