"""Who is let in: by name, by origin, by key; and what every answer carries."""

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.testclient import TestClient

from chainrule.serving.access import HEADERS, AccessPolicy
from chainrule.serving.app import make_app
from chainrule.serving.errors import APIError
from chainrule.serving.scheduler import Scheduler
from chainrule.serving.service import Service
from tests.serving.conftest import Client, error_of


def refusal(door: AccessPolicy, **headers: str) -> APIError | None:
    try:
        door.check(Headers({name.replace("_", "-"): value for name, value in headers.items()}))
    except APIError as problem:
        return problem
    return None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "localhost:8000", "LOCALHOST:80", "[::1]:8000", "[::1]"])
def test_names_of_this_machine_are_let_in(host: str):
    assert refusal(AccessPolicy(), host=host) is None


@pytest.mark.parametrize(
    "host", ["", "evil.com", "localhost.evil.com", "127.0.0.1.evil.com", "evil.com:8000", "192.168.0.1", "[::2]", "::1"]
)
def test_a_name_that_points_here_is_refused(host: str):
    problem = refusal(AccessPolicy(), host=host)
    assert problem is not None and problem.status_code == 400 and problem.code == "host"


def test_beyond_this_machine_addresses_are_let_in_and_names_if_allowed():
    door = AccessPolicy("0.0.0.0", names=("models.example",))
    assert refusal(door, host="192.168.0.7:8000") is None and refusal(door, host="[fe80::1]:8000") is None
    assert refusal(door, host="Models.Example:8000") is None and refusal(door, host="evil.com") is not None
    assert refusal(AccessPolicy("MyHost"), host="myhost:8000") is None


@pytest.mark.parametrize("origin", ["http://evil.com", "null", "", "http://localhost:3000", "http://[", "file://"])
def test_pages_of_other_sites_are_refused(origin: str):
    problem = refusal(AccessPolicy(), host="localhost:8000", origin=origin)
    assert problem is not None and problem.code == "origin"


@pytest.mark.parametrize("origin", ["http://localhost:8000", "https://LOCALHOST:8000"])
def test_our_own_page_is_let_in(origin: str):
    assert refusal(AccessPolicy(), host="localhost:8000", origin=origin) is None


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer ", "Bearer wrong", "Bearer sesame2", "bearer sesam", "sesame", "Basic sesame", "Basic é"],
)
def test_without_the_key_nobody_is_let_in(given: str):
    problem = refusal(AccessPolicy(key="sesame"), host="localhost", authorization=given)
    assert problem is not None and problem.status_code == 401


def test_the_key_as_a_token_or_as_a_browsers_password():
    password = base64.b64encode(b"anyone:sesame").decode()
    for given in ("Bearer sesame", "bearer sesame", f"Basic {password}"):
        assert refusal(AccessPolicy(key="sesame"), host="localhost", authorization=given) is None


@pytest.mark.parametrize("length", ["-1", "1.5", "x", "9" * 30, "²"])
def test_a_length_that_is_none(length: str):
    problem = refusal(AccessPolicy(), host="localhost", content_length=length)
    assert problem is not None and problem.status_code == 400


@pytest.fixture
def locked(service: Service) -> Iterator[Client]:
    """Its scheduler is another one: a thread is started but once."""
    own = Service(service.models, Scheduler())
    with TestClient(make_app(own, AccessPolicy(key="sesame")), base_url="http://127.0.0.1") as http:
        yield Client(http)


def test_every_route_wants_the_key(locked: Client):
    routes = [(method, path) for path, found in _paths(locked).items() for method in found]
    assert ("post", "/v1/completions") in routes and ("get", "/health") in routes and ("get", "/") in routes
    for method, path in routes:
        answer = locked.http.request(method, path.replace("{id}", "cows"))
        assert answer.status_code == 401 and error_of(answer)["type"] == "authentication_error", path
        assert answer.headers["www-authenticate"].startswith("Basic")
    answer = locked.http.get("/v1/models", headers={"Authorization": "Bearer sesame"})
    assert answer.status_code == 200


def _paths(locked: Client) -> dict[str, Any]:
    schema = locked.http.get("/openapi.json", headers={"Authorization": "Bearer sesame"}).json()
    return {**schema["paths"], "/": ["get"], "/openapi.json": ["get"], "/web/app.js": ["get"], "/none": ["get"]}


def test_every_answer_keeps_the_browser_from_what_the_page_does_not_need(client: Client):
    for answer in (client.http.get("/"), client.http.get("/none"), client.http.get("/", headers={"Host": "evil.com"})):
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
    assert client.http.get("/", headers={"Host": "evil.com"}).status_code == 400


def test_the_key_of_the_command(serve: Callable[..., Any], tmp_path: Path):
    (tmp_path / "key").write_text("sesame\n")
    with serve("cows", "--api-key-file", str(tmp_path / "key")) as server, server.http() as http:
        assert http.get("/health").status_code == 401
        assert http.get("/health", headers={"Authorization": "Bearer sesame"}).status_code == 200
        assert "sesame" not in server.said
