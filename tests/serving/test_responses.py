"""/v1/responses by the official client: what it writes is what a chat of the same messages writes."""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import openai
import pytest

from chainrule.errors import UserError
from chainrule.serving.generate import stream_tokens
from tests.serving.conftest import PATIENCE, Client, Live

STANDARD = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
]


@pytest.fixture
def ai(live: Live) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none needed", timeout=PATIENCE, max_retries=0) as client:
        yield client


def chat(ai: openai.OpenAI, model: str, messages: list[Any], max_tokens: int, **settings: Any) -> Any:
    return ai.chat.completions.create(model=model, messages=messages, max_tokens=max_tokens, **settings)


@pytest.mark.parametrize("kind", ["cows", "letters", "lstm"])
def test_the_text_is_that_of_a_chat(ai: openai.OpenAI, kind: str):
    for seed in range(3):
        extra = {"extra_body": {"seed": seed, "top_k": 20}}
        answer = ai.responses.create(
            model=kind, instructions="Be brief.", input="on day 3", max_output_tokens=12, temperature=0.8, **extra
        )
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "on day 3"}]
        other = chat(ai, kind, messages, 12, temperature=0.8, **extra)
        assert answer.output_text == other.choices[0].message.content
        assert answer.usage is not None
        assert answer.usage.input_tokens == other.usage.prompt_tokens
        assert answer.usage.output_tokens == other.usage.completion_tokens
        is_cut = other.choices[0].finish_reason == "length"
        assert answer.status == ("incomplete" if is_cut else "completed")
        assert (answer.incomplete_details is not None) == is_cut
        if answer.incomplete_details is not None:
            assert answer.incomplete_details.reason == "max_output_tokens"
        assert (answer.temperature, answer.top_p, answer.instructions, answer.store) == (0.8, 1.0, "Be brief.", False)


def test_without_a_limit_it_is_as_long_as_a_chat_without_one(ai: openai.OpenAI):
    answer = ai.responses.create(model="letters", input="on day 3", extra_body={"seed": 3})
    other = ai.chat.completions.create(model="letters", messages=[{"role": "user", "content": "on day 3"}], seed=3)
    assert answer.output_text == other.choices[0].message.content


def test_an_answer_is_sent_back_for_the_next_turn(ai: openai.OpenAI):
    """As OpenAI's guide does where nothing is stored: input += response.output."""
    history: list[Any] = [{"role": "user", "content": "on day 3"}]
    settings: dict[str, Any] = {"model": "cows", "store": False, "max_output_tokens": 6, "extra_body": {"seed": 1}}
    first = ai.responses.create(input=history, **settings)
    history += [*first.output, {"role": "user", "content": [{"type": "input_text", "text": "the cow"}]}]
    second = ai.responses.create(input=history, **settings)
    said = [("user", "on day 3"), ("assistant", first.output_text), ("user", "the cow")]
    other = chat(ai, "cows", [{"role": role, "content": content} for role, content in said], 6, seed=1)
    assert second.output_text == other.choices[0].message.content


@pytest.mark.parametrize(("model", "max_tokens"), [("cows", 500), ("lstm", 5), ("letters", 9)])
def test_events_are_the_standard_ones_and_add_up_to_the_whole(ai: openai.OpenAI, model: str, max_tokens: int):
    settings: dict[str, Any] = {"model": model, "input": "on day 3", "max_output_tokens": max_tokens}
    settings["extra_body"] = {"seed": 4}
    whole = ai.responses.create(**settings)
    events = list(ai.responses.create(**settings, stream=True))
    assert list(dict.fromkeys(event.type for event in events)) == [*STANDARD, f"response.{whole.status}"]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(each.delta for each in events if each.type == "response.output_text.delta") == whole.output_text
    last = events[-1]
    assert last.type == "response.completed" or last.type == "response.incomplete"
    assert last.response.output_text == whole.output_text and last.response.usage == whole.usage
    assert last.response.id == events[0].response.id  # type: ignore[union-attr]


def test_the_helper_that_gathers_a_stream(ai: openai.OpenAI):
    settings: dict[str, Any] = {"model": "cows", "input": "on day 3", "extra_body": {"seed": 4}}
    whole = ai.responses.create(**settings)
    with ai.responses.stream(**settings) as stream:
        gathered = stream.get_final_response()
    assert gathered.status == whole.status == "completed"
    assert gathered.output_text == whole.output_text


def test_events_are_named(client: Client):
    """Clients other than OpenAI's may go by the name of an event."""
    answer = client.http.post("/v1/responses", json={"input": "on", "seed": 1, "max_output_tokens": 2, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    for event in answer.text.removesuffix("\n\n").split("\n\n"):
        name, data = event.split("\n")
        assert json.loads(data.removeprefix("data: "))["type"] == name.removeprefix("event: ")


def test_a_model_that_fails_on_the_way_ends_the_stream_with_an_error(client: Client, monkeypatch: pytest.MonkeyPatch):
    async def breaking(*arguments: Any) -> AsyncGenerator[Any, None]:
        async with aclosing(stream_tokens(*arguments)) as tokens:
            yield await anext(tokens)
        raise UserError("the weights are not numbers; train again")

    monkeypatch.setattr("chainrule.serving.responses_api.stream_tokens", breaking)
    body = {"model": "letters", "input": "on", "seed": 1, "stream": True}
    events = client.http.post("/v1/responses", json=body).text.removesuffix("\n\n").split("\n\n")
    assert [event.split("\n")[0].removeprefix("event: ") for event in events] == [*STANDARD[:5], "error"]
    error = json.loads(events[-1].partition("data: ")[2])
    assert error == {
        "type": "error", "sequence_number": 5, "code": None, "message": "the weights are not numbers; train again",
        "param": None,
    }  # fmt: skip


def test_input_that_is_too_long_has_openais_code(ai: openai.OpenAI):
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as refused:
            ai.responses.create(model="transformer", input="x" * 65, stream=stream)
        assert (refused.value.code, refused.value.type) == ("context_length_exceeded", "invalid_request_error")
        assert refused.value.param == "input"
        assert "the prompt has 82 tokens but this model reads 64; shorten it" in refused.value.message


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"role": "user"}]}, "input"),
        ({"input": "on", "max_output_tokens": 0}, "max_output_tokens"),
        ({"input": [{"role": "user", "content": "x" * 60_000}] * 2}, "input"),
    ],
)
def test_what_is_wrong_is_named(client: Client, body: dict[str, Any], param: str):
    assert client.refused("/v1/responses", **body)["param"] == param
