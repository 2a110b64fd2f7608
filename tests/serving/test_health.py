"""What is served, how it is, and what is counted."""

import pytest

from chainrule.api import TrainedRun
from tests.serving.conftest import Client, Live, error_of


def test_models_are_listed_in_the_order_they_were_named(client: Client, runs: dict[str, TrainedRun]):
    found = client.http.get("/v1/models").json()
    assert [each["id"] for each in found["data"]] == ["cows", "herd", "strict", "letters", "lstm", "transformer"]
    for each in found["data"]:
        run = runs[each["id"]]
        assert each["parameters"] == run.model.num_parameters
        assert each["hash"] == run.manifest["model.safetensors"]["sha256"][:16]
        assert client.http.get(f"/v1/models/{each['id']}").json() == each


def test_names_are_looked_up_in_a_table_and_nowhere_else(client: Client, runs: dict[str, TrainedRun]):
    for name in ("../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", str(runs["cows"].path), "x" * 4000):
        answer = client.http.get(f"/v1/models/{name}")
        assert answer.status_code == 404 and error_of(answer)["message"]


def test_an_address_that_is_none_and_a_method_that_is_none(client: Client):
    assert error_of(client.http.get("/v2"))["message"] == "there is no such route"
    answer = client.http.get("/v1/completions")
    assert answer.status_code == 405 and answer.headers["allow"] == "POST" and error_of(answer)


GET_ROUTES = (
    "/", "/web/app.js", "/openapi.json", "/health", "/v1/models", "/v1/models/lstm", "/trainings", "/trainings/lstm",
    "/leaderboards", "/graphs", "/tokenizer_info?model=lstm", "/rolls?seed=1", "/v1/models/none", "/nothing",
    "/v1/completions",
)  # fmt: skip


@pytest.mark.parametrize("path", GET_ROUTES)
def test_head_is_answered_as_get_without_its_body(client: Client, path: str):
    get, head = client.http.get(path), client.http.head(path)
    assert (head.status_code, head.headers, head.content) == (get.status_code, get.headers, b"")
    assert int(head.headers["content-length"]) == len(get.content) > 0


def test_head_over_a_connection_that_is_kept(live: Live):
    """A body after the headers would be taken for the next response."""
    with live.http() as http:
        for _ in range(2):
            assert http.head("/v1/models").headers["content-length"] != "0"
            assert http.get("/health").json()["status"] == "ok"


def test_tokens_are_counted(client: Client):
    def count(name: str) -> float:
        text = client.http.get("/metrics").text
        found = [line for line in text.splitlines() if line.startswith(f'chainrule_{name}_total{{model="lstm"}}')]
        return float(found[0].rpartition(" ")[2]) if found else 0.0

    before = count("prompt_tokens"), count("generated_tokens")
    usage = client.complete("lstm", "on day 3", max_tokens=4, temperature=0)["usage"]
    assert count("prompt_tokens") == before[0] + usage["prompt_tokens"]
    assert count("generated_tokens") == before[1] + usage["completion_tokens"]
