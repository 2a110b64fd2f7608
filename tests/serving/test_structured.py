"""Answers that must match a schema, and calls of tools, as OpenAI's clients ask for them."""

import json
from typing import Any

import jsonschema_rs
import pytest
from fastapi.testclient import TestClient

MODELS = ["ngram", "lstm", "transformer"]
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 6}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
CITY = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"]} | {
    "additionalProperties": False
}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": CITY}},
    {"type": "function", "function": {"name": "time"}},
]
ASKED = [{"role": "user", "content": "Who eats hay?"}]


def chat(client: TestClient, status: int = 200, **body: Any) -> dict[str, Any]:
    answer = client.post("/v1/chat/completions", json={"messages": ASKED, "seed": 1, "max_tokens": 200, **body})
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


def streamed(client: TestClient, **body: Any) -> list[dict[str, Any]]:
    body = {"messages": ASKED, "seed": 1, "max_tokens": 200, "stream": True, **body}
    with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line)["choices"][0] for line in lines]


@pytest.mark.parametrize("model", MODELS)
def test_an_answer_matches_its_schema_streamed_or_not(toy_client: TestClient, model: str) -> None:
    found = chat(toy_client, model=model, n=3, response_format=FORMAT)
    for choice in found["choices"]:
        assert choice["finish_reason"] == "stop"
        jsonschema_rs.validate(PERSON, json.loads(choice["message"]["content"]))
    chunks = streamed(toy_client, model=model, response_format=FORMAT)
    text = "".join(chunk["delta"].get("content", "") for chunk in chunks)
    assert text == found["choices"][0]["message"]["content"]


def test_a_completion_matches_its_schema_too(toy_client: TestClient) -> None:
    body = {"model": "ngram", "prompt": "She: ", "max_tokens": 200, "seed": 2, "n": 4, "response_format": FORMAT}
    for choice in toy_client.post("/v1/completions", json=body).json()["choices"]:
        jsonschema_rs.validate(PERSON, json.loads(choice["text"]))


@pytest.mark.parametrize("model", MODELS)
def test_any_json_object_is_one(toy_client: TestClient, model: str) -> None:
    found = chat(toy_client, model=model, n=5, max_tokens=400, response_format={"type": "json_object"})
    whole = [each for each in found["choices"] if each["finish_reason"] == "stop"]
    assert all(isinstance(json.loads(each["message"]["content"]), dict) for each in whole)
    assert all(each["message"]["content"].startswith("{") for each in found["choices"])


def test_text_is_what_is_answered_without_a_format(toy_client: TestClient) -> None:
    plain = chat(toy_client, model="lstm")["choices"]
    assert chat(toy_client, model="lstm", response_format={"type": "text"})["choices"] == plain


@pytest.mark.parametrize("model", MODELS[:2])  # the Transformer reads 32 tokens, too few for the tools
def test_a_named_tool_is_called_with_arguments_that_match(toy_client: TestClient, model: str) -> None:
    choice = {"type": "function", "function": {"name": "weather"}}
    found = chat(toy_client, model=model, tools=TOOLS, tool_choice=choice)["choices"][0]
    (call,) = found["message"]["tool_calls"]
    assert found["finish_reason"] == "stop" and found["message"]["content"] is None
    assert call["type"] == "function" and call["id"].startswith("call_") and call["function"]["name"] == "weather"
    jsonschema_rs.validate(CITY, json.loads(call["function"]["arguments"]))


@pytest.mark.parametrize("model", MODELS[:2])
def test_where_a_call_is_required_the_model_chooses_the_tool(toy_client: TestClient, model: str) -> None:
    found = chat(toy_client, model=model, tools=TOOLS, tool_choice="required", n=6, temperature=1.5)["choices"]
    for each in found:
        (call,) = each["message"]["tool_calls"]
        assert each["finish_reason"] == "tool_calls"
        schema = CITY if call["function"]["name"] == "weather" else {"const": {}}
        jsonschema_rs.validate(schema, json.loads(call["function"]["arguments"]))
    (last, *before) = streamed(toy_client, model=model, tools=TOOLS, tool_choice="required", temperature=1.5)[::-1]
    assert last["delta"]["tool_calls"][0]["function"] == found[0]["message"]["tool_calls"][0]["function"]
    assert last["finish_reason"] == "tool_calls" and not any("tool_calls" in each["delta"] for each in before)


@pytest.mark.parametrize("model", MODELS[:2])
@pytest.mark.parametrize("tool_choice", [{}, {"tool_choice": "auto"}])
def test_a_model_may_choose_between_words_and_a_call(
    toy_client: TestClient, model: str, tool_choice: dict[str, str]
) -> None:
    opening = toy_client.post("/tokenize", json={"model": model, "prompt": "{"}).json()["tokens"][-1]
    for bias, is_call in ((100, True), (-100, False)):
        body = {"model": model, "tools": TOOLS, "logit_bias": {str(opening): bias}, "n": 3, **tool_choice}
        found = chat(toy_client, **body)["choices"]
        for each in found:
            assert ("tool_calls" in each["message"]) is is_call is (each["message"]["content"] is None)
            assert each["finish_reason"] in ({"tool_calls"} if is_call else {"stop", "length"})
        chunks = streamed(toy_client, **(body | {"n": 1}))
        words = "".join(chunk["delta"].get("content", "") for chunk in chunks)
        if is_call:
            (call,) = found[0]["message"]["tool_calls"]
            schema = CITY if call["function"]["name"] == "weather" else {"const": {}}
            jsonschema_rs.validate(schema, json.loads(call["function"]["arguments"]))
            assert chunks[-1]["delta"]["tool_calls"][0]["function"] == call["function"] and not words
        else:
            assert words == found[0]["message"]["content"] and words


def test_a_conversation_may_hold_former_calls_and_what_the_tools_said(toy_client: TestClient) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
    messages = [
        *ASKED,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]
    same = [*ASKED, {"role": "assistant", "content": '{"name": "weather", "arguments": {"city": "Rome"}}'}]
    same += [{"role": "user", "content": "sunny"}]
    theirs = chat(toy_client, model="ngram", messages=messages, tools=TOOLS, tool_choice="none")["choices"]
    assert theirs == chat(toy_client, model="ngram", messages=same)["choices"]


@pytest.mark.parametrize(
    ("body", "param", "sentence"),
    [
        ({"tool_choice": "required"}, "tool_choice", "tool_choice needs tools to choose from"),
        (
            {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "fish"}}},
            "tool_choice",
            "tool_choice names 'fish', but the tools are: weather, time",
        ),
        ({"tools": TOOLS[:1] * 2, "tool_choice": "required"}, "tools", "two tools have the same name"),
        ({"response_format": {"type": "json_schema"}}, "response_format", "needs a json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "fish"}}}},
            "response_format",
            "the json_schema cannot be followed: Invalid type: fish",
        ),
        ({"messages": [{"role": "user"}]}, "messages", "a message of the user has no content"),
        ({"presence_penalty": 5}, "presence_penalty", "presence_penalty must be a number from -2 to 2, got 5"),
        ({"frequency_penalty": "1"}, "frequency_penalty", "frequency_penalty must be a number from -2 to 2, got '1'"),
        ({"temperature": -1}, "temperature", "temperature must be a number from 0 to 100, got -1"),
        ({"top_k": 1.5}, "top_k", "top_k must be a whole number from 0 to 1000000, got 1.5"),
        ({"logit_bias": {"5": 101}}, "logit_bias", "logit_bias of the token 5 must be a number from -100 to 100"),
        ({"logit_bias": {"cow": 1}}, "logit_bias", "logit_bias must name tokens by their ids, got 'cow'"),
        ({"logit_bias": {"999999": 1}}, "logit_bias", "logit_bias names the token 999999, but the last one"),
    ],
)
def test_what_cannot_be_is_refused_by_name_in_one_sentence(
    toy_client: TestClient, body: dict[str, Any], param: str, sentence: str
) -> None:
    error = chat(toy_client, 400, model="ngram", **body)["error"]
    assert error["param"] == param
    assert sentence in error["message"] and "\n" not in error["message"]


def test_penalties_and_biases_reach_the_sampler(toy_client: TestClient) -> None:
    def complete(**body: Any) -> str:
        asked = {"model": "lstm", "prompt": "The red", "max_tokens": 30, "temperature": 0, **body}
        text: str = toy_client.post("/v1/completions", json=asked).json()["choices"][0]["text"]
        return text

    plain = complete()
    space = str(ord(" "))  # characters of ASCII have their byte as id
    assert " " in plain and " " not in complete(logit_bias={space: -100})
    assert set(complete(logit_bias={space: 100})) == {" "}
    assert len(set(complete(frequency_penalty=2, presence_penalty=2))) > len(set(plain))
    assert len(set(complete(no_repeat_ngram_size=1))) == 30


def test_the_openai_routes_keep_openais_temperature(toy_client: TestClient) -> None:
    body = {"model": "lstm", "prompt": "The", "max_tokens": 40, "seed": 3}
    plain, one, null = (
        toy_client.post("/v1/completions", json=body | more).json()["choices"]
        for more in ({}, {"temperature": 1.0}, {"temperature": None})
    )
    assert plain == one == null
