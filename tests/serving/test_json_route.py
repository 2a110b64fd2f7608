"""Bodies are JSON of bounded size, and /openapi.json is made from the models that validate them."""

from typing import Any

import pytest

from chainrule.serving.completions import CompletionRequest
from chainrule.serving.json_route import MOST_BYTES
from tests.serving.conftest import Client, error_of

BODY = b'{"model": "cows", "prompt": "on day", "max_tokens": 3, "seed": 1}'


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded", "text/plain", None])
def test_a_body_is_json_whatever_its_content_type_says(client: Client, kind: str | None):
    """As `curl -d` sends it."""
    expected = client.complete("cows", "on day", max_tokens=3, seed=1)["choices"]
    answer = client.http.post("/v1/completions", content=BODY, headers={"Content-Type": kind} if kind else {})
    assert answer.status_code == 200 and answer.json()["choices"] == expected


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'"on"', b"null", '{"prompt": "on"}'.encode("utf-16")])
def test_what_is_not_a_json_object_is_refused(client: Client, body: bytes):
    answer = client.http.post("/v1/completions", content=body)
    assert answer.status_code == 400 and error_of(answer)["code"] == "invalid_json"
    assert error_of(answer)["message"].startswith("the request is not the JSON object that is expected here: ")


def test_a_body_of_the_largest_size_is_read_and_a_larger_one_is_not(client: Client):
    padding = b" " * (MOST_BYTES - len(BODY))
    assert client.http.post("/v1/completions", content=BODY + padding).status_code == 200
    answer = client.http.post("/v1/completions", content=BODY + padding + b" ")
    assert answer.status_code == 413 and error_of(answer)["code"] == "too_large"


def test_unknown_fields_are_named_with_what_was_meant(client: Client):
    error = client.refused("/v1/completions", prompt="on", max_token=5)
    assert error["message"].startswith("unknown field 'max_token'; did you mean 'max_tokens'? (there are: temperature,")
    assert (error["code"], error["param"]) == ("unknown_field", "max_token")


def test_a_number_in_the_address_that_is_wrong_is_named(client: Client):
    answer = client.http.get("/rolls", params={"seed": "x"})
    assert answer.status_code == 400 and error_of(answer)["param"] == "seed"
    assert error_of(answer)["message"].startswith("'seed' in the address is wrong: ")


def test_the_schema_of_a_body_is_the_one_that_validates_it(client: Client):
    document = client.http.get("/openapi.json").json()
    operation = document["paths"]["/v1/completions"]["post"]
    assert operation["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/CompletionRequest"
    }
    declared: dict[str, Any] = document["components"]["schemas"]["CompletionRequest"]
    assert declared["additionalProperties"] is False
    assert set(declared["properties"]) == set(CompletionRequest.model_fields)
    statuses = {status for path in document["paths"].values() for each in path.values() for status in each["responses"]}
    assert statuses == {"200", "400", "401", "404", "413", "429", "503"}
