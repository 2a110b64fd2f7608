"""Requests made up from /openapi.json: nothing breaks the server, and every answer is one that is declared."""

from collections import Counter
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from tests.serving.conftest import PATIENCE, Live

TOO_LARGE = 413
DECLARED = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
PATHS = {
    "/v1/models", "/v1/models/{id}", "/health", "/metrics", "/v1/completions", "/v1/chat/completions", "/tokenize",
    "/detokenize", "/tokenizer_info", "/v1/translate", "/v1/responses",
    "/v1/embeddings",
}  # fmt: skip


@pytest.fixture(scope="module")
def api(live: Live) -> Any:
    return schemathesis.openapi.from_url(f"{live.url}/openapi.json")


def check(operation: Any, mode: GenerationMode, checks: list[Any], **fixed: Any) -> Counter[int]:
    """By status, how many requests were answered as they should be. Of each, some fields may be fixed."""
    statuses: Counter[int] = Counter()

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def each(case: Any) -> None:
        if fixed:
            case.body |= fixed
        response = case.call(timeout=PATIENCE)
        is_large = response.status_code == TOO_LARGE  # a refusal too, which schemathesis does not count as one
        case.validate_response(response, checks=[c for c in checks if not (is_large and c is negative_data_rejection)])
        statuses[response.status_code] += 1

    each()
    return statuses


def test_all_that_is_there_is_declared(api: Any):
    assert {operation.ok().path for operation in api.get_all_operations()} >= PATHS


@pytest.mark.parametrize("path", sorted(PATHS))
def test_every_answer_is_one_that_is_declared(api: Any, path: str):
    for method in api[path]:
        assert check(api[path][method], GenerationMode.POSITIVE, DECLARED)


@pytest.mark.parametrize(
    ("path", "fixed"),
    [
        ("/v1/completions", {"prompt": ["on day", "é"], "max_tokens": 4, "suffix": None, "best_of": None, "stop": "x"}),
        ("/v1/chat/completions", {"max_completion_tokens": 4, "logprobs": True, "tools": None, "tool_choice": None}),
        (
            "/v1/chat/completions",
            {
                "messages": [{"role": "user", "content": "on day"}],
                "max_completion_tokens": 4,
                "logprobs": False,
                "top_logprobs": None,
                "logit_bias": None,
                "response_format": None,
                "tools": [{"type": "function", "function": {"name": "cow"}}],
                "tool_choice": "required",
            },
        ),
        ("/v1/responses", {"max_output_tokens": 4}),
        ("/v1/embeddings", {"model": "lstm", "input": ["on day", "é", ""], "dimensions": None}),
        ("/tokenize", {}),
        ("/detokenize", {"tokens": [0, 1, 5]}),
        ("/v1/translate", {"model": "cross", "text": ["rot", "", "é"], "beam": 3, "n": 2, "max_tokens": 4}),
    ],
)
def test_answers_to_what_can_be_done_are_declared_too(api: Any, path: str, fixed: dict[str, Any]):
    """Made up, a model's name is never one of ours, nor are ids."""
    assert check(api[path]["POST"], GenerationMode.POSITIVE, DECLARED, **{"model": "cows", **fixed})[200] > 10


@pytest.mark.parametrize(
    "path",
    [
        "/v1/completions",
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/embeddings",
        "/tokenize",
        "/detokenize",
        "/v1/translate",
    ],
)
def test_what_the_schema_does_not_allow_is_refused(api: Any, path: str):
    assert check(api[path]["POST"], GenerationMode.NEGATIVE, [*DECLARED, negative_data_rejection])[400] > 30
