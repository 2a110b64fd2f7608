"""The official client, unmodified, against the server as people run it."""

from collections.abc import Iterator

import openai
import pytest

from chainrule.api import TrainedRun
from chainrule.generation import Sampling, sample
from tests.serving.conftest import PATIENCE, Live

Runs = dict[str, TrainedRun]


@pytest.fixture
def ai(live: Live) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none needed", timeout=PATIENCE, max_retries=0) as client:
        yield client


def test_completions(ai: openai.OpenAI, runs: Runs):
    run = runs["cows"]
    own = sample(run.model, run.tokenizer, "on day 3", Sampling(seed=1, samples=2, max_tokens=9))
    answer = ai.completions.create(model="cows", prompt="on day 3", seed=1, n=2, max_tokens=9, logprobs=2)
    assert [choice.text for choice in answer.choices] == [each.text for each in own]
    for choice, each in zip(answer.choices, own, strict=True):
        assert choice.logprobs is not None
        assert choice.logprobs.token_logprobs == pytest.approx(each.log_probabilities, abs=1e-6)
    assert answer.usage is not None and answer.usage.completion_tokens == sum(len(each.ids) for each in own)


def test_completions_as_they_come(ai: openai.OpenAI):
    whole = ai.completions.create(model="lstm", prompt=["on day", "the"], seed=1, max_tokens=12)
    texts, usage = ["", ""], None
    with ai.completions.create(
        model="lstm",
        prompt=["on day", "the"],
        seed=1,
        max_tokens=12,
        stream=True,
        stream_options={"include_usage": True},
    ) as stream:
        for chunk in stream:
            for choice in chunk.choices:
                texts[choice.index] += choice.text
            usage = chunk.usage or usage
    assert texts == [choice.text for choice in whole.choices]
    assert usage == whole.usage


def test_fields_that_openai_does_not_have(ai: openai.OpenAI, runs: Runs):
    run = runs["lstm"]
    [own] = sample(run.model, run.tokenizer, "on", Sampling(seed=3, top_k=4, min_p=0.02, max_tokens=8))
    answer = ai.completions.create(
        model="lstm", prompt="on", seed=3, max_tokens=8, extra_body={"top_k": 4, "min_p": 0.02}
    )
    assert answer.choices[0].text == own.text


def test_a_conversation(ai: openai.OpenAI):
    messages: list = [{"role": "user", "content": "on day 3"}]
    first = ai.chat.completions.create(model="cows", messages=messages, seed=1, max_completion_tokens=8, logprobs=True)
    assert first.choices[0].logprobs is not None and first.choices[0].logprobs.content
    with ai.chat.completions.create(
        model="cows", messages=messages, seed=1, max_completion_tokens=8, stream=True
    ) as stream:
        told = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert told == first.choices[0].message.content
    messages += [first.choices[0].message, {"role": "user", "content": "the cow"}]
    second = ai.chat.completions.create(model="cows", messages=messages, seed=1, max_completion_tokens=4)
    written = f"User: on day 3\nAssistant: {told}\nUser: the cow\nAssistant:"
    plain = ai.completions.create(model="cows", prompt=written, seed=1, max_tokens=4, stop=["\nUser:", "\nAssistant:"])
    assert second.choices[0].message.content == plain.choices[0].text.removeprefix(" ")


def test_a_conversation_of_several_turns_under_a_system_message(ai: openai.OpenAI):
    """Each answer is that of the transcript so far, and one that was cut goes on where it ended."""
    messages: list = [{"role": "system", "content": "Speak of cows."}]
    written = "Speak of cows.\n\n"
    stop = ["\nUser:", "\nAssistant:"]
    for place, question in enumerate(["on day 3", "the cow", "by the river"]):
        messages.append({"role": "user", "content": question})
        written += f"User: {question}\nAssistant:"
        answer = ai.chat.completions.create(model="herd", messages=messages, seed=place, max_completion_tokens=6)
        plain = ai.completions.create(model="herd", prompt=written, seed=place, max_tokens=6, stop=stop)
        told = answer.choices[0].message.content
        assert told == plain.choices[0].text.removeprefix(" ")
        messages.append(answer.choices[0].message)
        written += f" {told}\n"
    more = {"continue_final_message": True, "add_generation_prompt": False}
    last = ai.chat.completions.create(model="herd", messages=messages, seed=1, max_completion_tokens=6, extra_body=more)
    plain = ai.completions.create(model="herd", prompt=written[:-1], seed=1, max_tokens=6, stop=stop)
    assert last.choices[0].message.content == plain.choices[0].text


def test_the_helper_that_gathers_a_streamed_conversation(ai: openai.OpenAI):
    body: dict = {"model": "cows", "messages": [{"role": "user", "content": "on day 3"}], "seed": 4, "max_tokens": 500}
    whole = ai.chat.completions.create(**body, logprobs=True)
    with ai.chat.completions.stream(**body, logprobs=True) as stream:
        gathered = stream.get_final_completion()
    assert gathered.choices[0].message.content == whole.choices[0].message.content
    assert gathered.choices[0].finish_reason == whole.choices[0].finish_reason == "stop"


def test_models(ai: openai.OpenAI):
    found = {model.id: model.to_dict()["task"] for model in ai.models.list()}
    assert list(found) == ["cows", "herd", "letters", "lstm", "transformer", "cross", "additive"]
    assert [id for id, task in found.items() if task == "translation"] == ["cross", "additive"]
    assert ai.models.retrieve("lstm").owned_by == "chainrule"


def test_errors_are_the_clients_own(ai: openai.OpenAI):
    with pytest.raises(openai.BadRequestError) as bad:
        ai.completions.create(model="cows", prompt="on", temperature=-1)
    assert bad.value.param == "temperature" and bad.value.type == "invalid_request_error"
    with pytest.raises(openai.NotFoundError) as missing:
        ai.completions.create(model="sheep", prompt="on")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as streamed:
        ai.completions.create(model="transformer", prompt="x" * 65, stream=True)
    assert streamed.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError, match="suffix is not supported"):
        ai.completions.create(model="cows", prompt="on", suffix="hay")
