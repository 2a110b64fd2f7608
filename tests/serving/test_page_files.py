"""The files of the page: with their types, behind the page's policy, and nothing else of the disk."""

from pathlib import Path

import pytest

from chainrule.serving.access import HEADERS
from chainrule.serving.page import WEB
from tests.serving.conftest import Client, error_of

TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}


def test_every_file_of_the_page_is_served_with_its_type_and_the_policy(client: Client):
    files = [file for file in Path(WEB).iterdir() if file.suffix in TYPES]
    assert len(files) > 30
    for file in files:
        answer = client.http.get(f"/web/{file.name}")
        assert answer.status_code == 200 and answer.content == file.read_bytes()
        assert answer.headers["content-type"] == TYPES[file.suffix]
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS


def test_the_page_itself(client: Client):
    answer = client.http.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.content == (Path(WEB) / "index.html").read_bytes()


@pytest.mark.parametrize("path", ["/web/none.js", "/web/", "/web/..%2fapp.py", "/web/%2e%2e/app.py", "/web/app.js/x"])
def test_anything_else_is_not_there(client: Client, path: str):
    answer = client.http.get(path)
    assert answer.status_code == 404 and error_of(answer)["message"] == "there is no such route"


def test_files_are_counted_under_one_name(client: Client):
    client.http.get("/web/app.js")
    assert 'chainrule_requests_total{route="/web/{name}",status="200"}' in client.http.get("/metrics").text
