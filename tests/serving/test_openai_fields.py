"""What OpenAI's clients send of their own accord is accepted; what would change the answer is refused by its name."""

from typing import Any

import openai
import pytest
from openai.types import completion_create_params
from openai.types.chat import ChatCompletionMessage
from openai.types.chat import completion_create_params as chat_params
from openai.types.responses import response_create_params

from chainrule.serving.chat import ChatRequest
from chainrule.serving.completions import CompletionRequest
from chainrule.serving.responses_api import ResponseRequest
from tests.serving.conftest import Client, Live

CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
HELLO: list[Any] = [{"role": "user", "content": "on day 3"}]
ASKED = {
    CHAT: {"messages": HELLO, "model": "cows", "seed": 1, "max_tokens": 4},
    COMPLETIONS: {"prompt": "on day 3", "model": "cows", "seed": 1, "max_tokens": 4},
    RESPONSES: {"input": "on day 3", "model": "cows", "seed": 1, "max_output_tokens": 4},
}


@pytest.mark.parametrize(
    ("request_type", "params"),
    [
        (CompletionRequest, completion_create_params.CompletionCreateParamsBase),
        (ChatRequest, chat_params.CompletionCreateParamsBase),
        (ResponseRequest, response_create_params.ResponseCreateParamsBase),
    ],
)
def test_every_field_that_openai_documents_is_known(request_type: Any, params: Any):
    assert set(params.__annotations__) - set(request_type.model_fields) == set()


NOTHING_ASKED = {
    CHAT: {
        "response_format": {"type": "text"}, "tools": [], "tool_choice": "auto", "parallel_tool_calls": True,
        "functions": [], "function_call": "none", "store": False, "metadata": {"project": "cows"},
        "service_tier": "auto", "modalities": ["text"], "audio": None, "prediction": None, "reasoning_effort": "none",
        "verbosity": "medium", "web_search_options": None, "moderation": None, "user": "me", "logit_bias": {},
        "prompt_cache_key": "a", "prompt_cache_options": {"mode": "implicit"}, "prompt_cache_retention": "24h",
        "safety_identifier": "b", "frequency_penalty": 0, "presence_penalty": 0, "stream_options": None,
    },
    COMPLETIONS: {"user": "me", "suffix": "", "best_of": None, "logit_bias": {}, "frequency_penalty": 0},
    RESPONSES: {
        "access_programs": None, "background": False, "context_management": None, "conversation": None, "image": None,
        "include": [], "max_tool_calls": 3, "metadata": {}, "moderation": None, "parallel_tool_calls": True,
        "previous_response_id": None, "prompt": None, "prompt_cache_key": "a", "prompt_cache_options": {},
        "prompt_cache_retention": "24h", "reasoning": {"effort": "none"}, "safety_identifier": "b",
        "service_tier": "default", "store": False, "text": {"format": {"type": "text"}}, "tool_choice": "auto",
        "tools": [], "top_logprobs": 0, "truncation": "disabled", "user": "me",
    },
}  # fmt: skip


@pytest.mark.parametrize(("path", "name"), [(path, name) for path in NOTHING_ASKED for name in NOTHING_ASKED[path]])
def test_a_field_that_asks_for_nothing_changes_nothing(client: Client, path: str, name: str):
    plain = client.post(path, **ASKED[path])
    other = client.post(path, **ASKED[path], **{name: NOTHING_ASKED[path][name]})
    for each in (plain, other):
        for unique in ("id", "created", "created_at", "metadata"):
            each.pop(unique, None)
        for item in each.get("output", ()):
            del item["id"]
    assert other == plain


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        (CHAT, {"store": True}, ": nothing is kept here; leave it out"),
        (CHAT, {"modalities": ["text", "audio"]}, ": models here read and write text; leave it out"),
        (CHAT, {"reasoning_effort": "high"}, ": models here answer at once; leave it out"),
        (CHAT, {"verbosity": "low"}, "; use max_completion_tokens or stop"),
        (CHAT, {"web_search_options": {}}, ": models here call no tools; leave it out"),
        (COMPLETIONS, {"suffix": "hay"}, ": models here read from left to right"),
        (RESPONSES, {"store": True}, ": nothing is kept here; leave it out"),
        (RESPONSES, {"previous_response_id": "a"}, ": nothing is kept here; send all messages as input"),
        (RESPONSES, {"background": True}, "; use stream"),
        (RESPONSES, {"truncation": "auto"}, "; shorten the input"),
        (RESPONSES, {"tools": [{"type": "web_search"}]}, ": models here call no tools; leave it out"),
    ],
)
def test_what_would_change_the_answer_is_refused_by_its_name(client: Client, path: str, body: Any, said: str):
    (name,) = body
    error = client.refused(path, **ASKED[path], **body)
    assert error["message"] == f"{name} is not supported{said}"
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", name, "unsupported")


def test_numbers_are_no_truth_values(client: Client):
    assert client.refused(CHAT, **ASKED[CHAT], store=0)["code"] == "unsupported"


def test_a_field_that_nobody_has_is_told_with_those_that_do_something(client: Client):
    said = client.refused(CHAT, **ASKED[CHAT], tempreature=1)["message"]
    assert said.startswith("unknown field 'tempreature'; did you mean 'temperature'? (there are: ")
    assert "max_completion_tokens" in said and "web_search_options" not in said


def test_an_answer_is_sent_back_as_the_client_wrote_it_down(live: Live):
    """With all the fields that a message of OpenAI's has, null or empty."""
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as ai:
        settings: dict[str, Any] = {"model": "cows", "seed": 1, "max_completion_tokens": 6}
        first = ai.chat.completions.create(messages=HELLO, **settings).choices[0].message
        dumped = ChatCompletionMessage(
            role="assistant", content=first.content, tool_calls=[], annotations=[]
        ).model_dump()
        assert {"refusal", "audio", "function_call"} <= dumped.keys()
        short = {"role": "assistant", "content": first.content}
        more = {"role": "user", "content": "the cow"}
        asked: list[Any] = [[*HELLO, said, more] for said in (short, dumped)]
        answers = [ai.chat.completions.create(messages=messages, **settings) for messages in asked]
        assert answers[0].choices == answers[1].choices


def test_an_assistant_may_have_said_nothing_but_nobody_else(client: Client):
    settings = {"model": "cows", "seed": 1, "max_tokens": 6}
    said = [
        client.post(CHAT, messages=[*HELLO, {"role": "assistant", **nothing}, *HELLO], **settings)["choices"]
        for nothing in ({"content": ""}, {"content": None}, {})
    ]
    assert said[0] == said[1] == said[2]
    for role in ("user", "system", "developer"):
        error = client.refused(CHAT, messages=[{"role": role, "content": None}], **settings)
        assert error["message"] == f"the field 'messages' is wrong: a message of the {role} has no content"


def test_parts_of_messages_that_are_not_supported_are_named(client: Client):
    message = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    error = client.refused(CHAT, messages=[*HELLO, message])
    assert error["message"] == "messages[1].function_call is not supported: models here call no tools; leave it out"
    assert error["param"] == "messages"
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}
    error = client.refused(CHAT, messages=[{"role": "user", "content": [{"type": "text", "text": "what?"}, picture]}])
    assert error["message"] == "messages[0].content[1] of type 'image_url' is not supported; use type 'text'"
    called = {"type": "function_call_output", "call_id": "1", "output": "3"}
    error = client.refused(RESPONSES, input=[*HELLO, called])
    assert error["message"] == "input[1] of type 'function_call_output' is not supported; use type 'message'"
    read = {"role": "user", "content": [{"type": "input_file", "file_id": "1"}]}
    error = client.refused(RESPONSES, input=[read])
    assert error["message"] == "input[0].content[0] of type 'input_file' is not supported; use type 'input_text'"
