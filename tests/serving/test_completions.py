"""/v1/completions says what the models say, in every way in which it can be asked."""

from typing import Any

import numpy as np
import pytest

from chainrule.api import TrainedRun
from chainrule.generation import Sampling, log_probabilities, sample
from chainrule.models._numpy import step, to_numpy
from chainrule.models.contract import log_softmax
from tests.cli.cows import LINES
from tests.serving.conftest import Client

KINDS = ("cows", "letters", "lstm", "transformer")
PROMPT = "on day 5 the"
Runs = dict[str, TrainedRun]


def drawn(run: TrainedRun, prompt: str, **settings: Any) -> list[Any]:
    return sample(run.model, run.tokenizer, prompt, Sampling(**({"temperature": 1.0} | settings)))  # OpenAI's default


def expected(run: TrainedRun, ids: list[int]) -> np.ndarray:
    """log p of what may come after each of the ids, read alone and one at a time: (time, vocabulary)."""
    state, found = run.model.start(1), []
    for id in ids:
        logits, state = step(run.model, np.array([[id]]), state)
        found.append(log_softmax(to_numpy(logits)[0, -1:].astype(np.float64))[0])
    return np.array(found)


def reason(generation: Any) -> str:
    return "length" if generation.finish_reason == "length" else "stop"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", [{}, {"temperature": 0.7, "top_k": 9, "top_p": 0.9, "min_p": 0.01}])
def test_what_is_served_is_what_sample_draws(client: Client, runs: Runs, kind: str, settings: dict[str, Any]):
    [choice] = client.choices(kind, PROMPT, seed=3, max_tokens=20, logprobs=0, return_token_ids=True, **settings)
    [own] = drawn(runs[kind], PROMPT, seed=3, max_tokens=20, **settings)
    assert choice["text"] == own.text
    assert choice["token_ids"] == list(own.ids)
    assert choice["finish_reason"] == reason(own)
    np.testing.assert_allclose(choice["logprobs"]["token_logprobs"], own.log_probabilities, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_temperature_zero_is_the_likeliest_token_every_time(client: Client, runs: Runs, kind: str):
    run = runs[kind]
    ids = [run.tokenizer.eos, *run.tokenizer.encode(PROMPT).tolist()]
    for _ in range(8):
        ids.append(int(expected(run, ids)[-1].argmax()))
        if ids[-1] == run.tokenizer.eos:
            break
    [choice] = client.choices(kind, PROMPT, temperature=0, max_tokens=8, return_token_ids=True)
    assert choice["prompt_token_ids"] + choice["token_ids"] == ids[1:]


@pytest.mark.parametrize("kind", KINDS)
def test_many_samples_are_each_sample_number_alone(client: Client, runs: Runs, kind: str):
    choices = client.choices(kind, PROMPT, n=5, seed=11, max_tokens=12)
    alone = [drawn(runs[kind], PROMPT, seed=11, max_tokens=12, first_sample=i)[0].text for i in range(5)]
    assert [choice["index"] for choice in choices] == [0, 1, 2, 3, 4]
    assert [choice["text"] for choice in choices] == alone
    assert len(set(alone)) > 1


@pytest.mark.parametrize("kind", ["cows", "lstm"])
def test_a_list_of_prompts_is_each_alone(client: Client, kind: str):
    prompts = ["on day", "the old cow", "", "grass on"]
    settings = {"n": 2, "seed": 5, "max_tokens": 9, "logprobs": 2, "echo": True}
    together = client.choices(kind, prompts, **settings)
    assert [each["index"] for each in together] == list(range(8))
    for place, prompt in enumerate(prompts):
        for choice, alone in zip(together[2 * place :][:2], client.choices(kind, prompt, **settings), strict=True):
            assert choice["text"] == alone["text"]
            for name in ("tokens", "text_offset"):
                assert choice["logprobs"][name] == alone["logprobs"][name]
            for ours, theirs in zip(
                choice["logprobs"]["token_logprobs"], alone["logprobs"]["token_logprobs"], strict=True
            ):
                assert ours == (None if theirs is None else pytest.approx(theirs, abs=1e-6))


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_read_as_they_are(client: Client, runs: Runs, kind: str):
    run = runs[kind]
    ids = run.tokenizer.encode("the red cow").tolist()
    [choice] = client.choices(kind, ids, echo=True, logprobs=1, max_tokens=1, temperature=0)
    found = expected(run, ids)
    wanted = [None, *(float(row[id]) for row, id in zip(found, ids[1:], strict=False)), float(found[-1].max())]
    got = choice["logprobs"]["token_logprobs"]
    assert got[0] is None and len(got) == len(ids) + 1
    np.testing.assert_allclose(got[1:], wanted[1:], atol=1e-5)
    assert choice["text"].startswith("the red cow")


@pytest.mark.parametrize("kind", KINDS)
def test_text_is_read_after_the_end_token(client: Client, runs: Runs, kind: str):
    run = runs[kind]
    ids = [run.tokenizer.eos, *run.tokenizer.encode(PROMPT).tolist()]
    settings = {"seed": 4, "max_tokens": 10, "logprobs": 3}
    [by_text], [by_ids], [by_list] = (client.choices(kind, each, **settings) for each in (PROMPT, ids, [ids]))
    assert by_text == by_ids == by_list


@pytest.mark.parametrize("kind", KINDS)
def test_echoed_log_probabilities_are_our_own_evaluation(client: Client, runs: Runs, kind: str):
    run = runs[kind]
    text = "on day 7 the red cow eats grass"
    ids = run.tokenizer.encode(text)
    own = log_probabilities(run.model, ids, run.tokenizer.eos)
    [choice] = client.choices(kind, text, echo=True, logprobs=0, max_tokens=0)
    assert choice["text"] == text and choice["finish_reason"] == "length"
    assert choice["logprobs"]["token_logprobs"][0] is None
    np.testing.assert_allclose(choice["logprobs"]["token_logprobs"][1:], own[1:-1], atol=1e-5)
    [choice] = client.choices(kind, [run.tokenizer.eos, *ids.tolist()], echo=True, logprobs=0, max_tokens=0)
    np.testing.assert_allclose(choice["logprobs"]["token_logprobs"][1:], own[:-1], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_every_list_of_log_probabilities_is_as_long_as_the_tokens(client: Client, runs: Runs, kind: str):
    [choice] = client.choices(
        kind, "on day 3 the old cow é", echo=True, logprobs=3, max_tokens=9, seed=2, return_token_ids=True
    )
    found = choice["logprobs"]
    ids = choice["prompt_token_ids"] + choice["token_ids"]
    assert choice["prompt_token_ids"] == runs[kind].tokenizer.encode("on day 3 the old cow é").tolist()
    assert {len(values) for values in found.values()} == {len(ids)}
    assert found["top_logprobs"][0] is None
    for name, own, top in zip(found["tokens"][1:], found["token_logprobs"][1:], found["top_logprobs"][1:], strict=True):
        assert top[name] == own  # the same float, among the likeliest or not
        assert len(top) in (3, 4) and max(top.values()) >= own
    spelled = runs[kind].tokenizer.token_bytes
    whole = [place for place in range(1, len(ids)) if all(_is_text(spelled[id]) for id in ids[place - 1 : place + 1])]
    assert len(whole) > 3
    for place in whole:  # where what is before it is whole characters too
        assert choice["text"][found["text_offset"][place] :].startswith(spelled[ids[place]].decode())


@pytest.mark.parametrize("kind", KINDS)
def test_without_an_echo_places_are_the_same(client: Client, kind: str):
    settings = {"seed": 2, "max_tokens": 9, "logprobs": 0}
    [echoed] = client.choices(kind, "the cow", echo=True, **settings)
    [plain] = client.choices(kind, "the cow", **settings)
    places = plain["logprobs"]["text_offset"]
    assert places[0] == len("the cow") and places == echoed["logprobs"]["text_offset"][-len(places) :]


def _is_text(data: bytes) -> bool:
    try:
        return bool(data.decode())
    except UnicodeDecodeError:
        return False


def test_the_likeliest_tokens_are_the_models_own(client: Client, runs: Runs):
    run = runs["lstm"]
    ids = run.tokenizer.encode(PROMPT).tolist()
    [choice] = client.choices("lstm", ids, logprobs=5, max_tokens=1, temperature=0)
    [top] = choice["logprobs"]["top_logprobs"]
    assert sorted(top.values()) == pytest.approx(np.sort(expected(run, ids)[-1])[-5:].tolist(), abs=1e-5)


def test_what_cannot_be_is_minus_9999(client: Client, runs: Runs):
    run = runs["strict"]
    seen = (run.tokenizer.encode(line) for line in LINES)
    known = next(ids for ids in seen if np.isfinite(log_probabilities(run.model, ids, run.tokenizer.eos)).all())
    text = f"{run.tokenizer.decode(known)} cow"
    [choice] = client.choices("strict", text, echo=True, logprobs=2, max_tokens=0)
    assert choice["logprobs"]["token_logprobs"][-1] == -9999.0
    assert choice["logprobs"]["top_logprobs"][-1][" cow"] == -9999.0
    assert all(each > -9999.0 for each in choice["logprobs"]["token_logprobs"][1:-1])


def test_the_generated_token_is_always_there_even_the_end(client: Client, runs: Runs):
    text = "on day 3 the old cow eats hay"
    [choice] = client.choices("cows", text, echo=True, logprobs=1, max_tokens=1, temperature=0, return_token_ids=True)
    assert choice["token_ids"] == [runs["cows"].tokenizer.eos]
    assert choice["logprobs"]["tokens"][-1] == "<eos>" and choice["finish_reason"] == "stop" and choice["text"] == text


def test_best_of_keeps_the_likeliest_by_the_token(client: Client, runs: Runs):
    own = drawn(runs["lstm"], PROMPT, seed=8, max_tokens=7, samples=6)
    ranked = sorted(own, key=lambda each: -float(np.mean(each.log_probabilities)))
    answer = client.complete("lstm", PROMPT, seed=8, max_tokens=7, best_of=6, n=2)
    assert [each["text"] for each in answer["choices"]] == [ranked[0].text, ranked[1].text]
    assert ranked[0].text != own[0].text
    assert answer["usage"]["completion_tokens"] == sum(len(each.ids) for each in own)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_string_stops_wherever_the_tokens_part_it(client: Client, kind: str):
    [whole] = client.choices(kind, "on day 3", temperature=0, max_tokens=30, logprobs=0)
    begins = whole["logprobs"]["text_offset"]
    cut = begins[4] - begins[0]
    stop = whole["text"][cut - 1 : cut + 2]  # the end of one token and the beginning of the next
    assert len(stop) == 3
    [stopped] = client.choices(kind, "on day 3", temperature=0, max_tokens=30, stop=["never there", stop])
    assert stopped["text"] == whole["text"][: whole["text"].index(stop)]
    assert stopped["finish_reason"] == "stop"


def test_a_thousand_stops(client: Client):
    stops = [f"no {number}" for number in range(999)]
    [choice] = client.choices("herd", "on day", temperature=0, max_tokens=9, stop=[*stops, " cow"])
    assert choice["text"].endswith("the red") and choice["finish_reason"] == "stop"
    error = client.refused("/v1/completions", prompt="on", stop=[*stops, "a", "b"])
    assert error["param"] == "stop"


@pytest.mark.parametrize("kind", ["cows", "letters", "lstm"])
def test_a_stream_adds_up_to_the_whole(client: Client, kind: str):
    body = {
        "model": kind,
        "prompt": ["on day", "the é"],
        "n": 3,
        "seed": 6,
        "max_tokens": 14,
        "logprobs": 2,
        "echo": True,
    }
    whole = client.post("/v1/completions", **body)
    events = client.stream("/v1/completions", **body, stream_options={"include_usage": True})
    assert events[-1]["choices"] == [] and events[-1]["usage"] == whole["usage"]
    assert all(event["usage"] is None for event in events[:-1])
    for choice in whole["choices"]:
        pieces = [each for event in events for each in event["choices"] if each["index"] == choice["index"]]
        assert "".join(piece["text"] for piece in pieces) == choice["text"]
        assert [piece["finish_reason"] for piece in pieces] == [None] * (len(pieces) - 1) + [choice["finish_reason"]]
        for name in ("tokens", "text_offset"):
            assert [each for piece in pieces for each in piece["logprobs"][name]] == choice["logprobs"][name]
        found = [each for piece in pieces for each in piece["logprobs"]["token_logprobs"]]
        wanted = choice["logprobs"]["token_logprobs"]
        assert [each is None for each in found] == [each is None for each in wanted]
        assert [each or 0.0 for each in found] == pytest.approx([each or 0.0 for each in wanted], abs=1e-6)


def test_a_stream_of_a_prompt_that_is_only_read(client: Client):
    body = {"model": "cows", "prompt": "the cow", "max_tokens": 0, "echo": True, "logprobs": 1}
    [event] = client.stream("/v1/completions", **body)
    assert event["choices"] == client.post("/v1/completions", **body)["choices"]


def test_usage_counts_what_was_read_and_drawn(client: Client, runs: Runs):
    count = len(runs["lstm"].tokenizer.encode(PROMPT))
    answer = client.complete("lstm", [PROMPT, PROMPT], n=2, max_tokens=3, temperature=0, logprobs=0)
    drawn = sum(len(choice["logprobs"]["tokens"]) for choice in answer["choices"])
    assert answer["usage"] == {
        "prompt_tokens": 2 * count, "completion_tokens": drawn, "total_tokens": 2 * count + drawn
    }  # fmt: skip


def test_a_prompt_may_fill_the_context(client: Client, runs: Runs):
    run, text = runs["transformer"], "abcdefgh" * 8
    assert len(run.tokenizer.encode(text)) == run.model.context_length == 64  # type: ignore[attr-defined]
    [choice] = client.choices("transformer", text, seed=1, max_tokens=40, echo=True, logprobs=0)
    assert choice["text"] == text + drawn(run, text, seed=1, max_tokens=40)[0].text
    assert choice["logprobs"]["tokens"][:64] == list(text)
    for prompt in (text + "i", [1] * 65):
        error = client.refused("/v1/completions", model="transformer", prompt=prompt)
        assert error["code"] == "context_length_exceeded"
        assert error["message"] == "the prompt has 65 tokens but this model reads 64; shorten it"


def test_a_space_at_the_end_begins_the_next_word_unless_it_is_to_be_measured(client: Client, runs: Runs):
    run = runs["cows"]
    [choice] = client.choices("cows", "on day 3 the ", seed=1, max_tokens=4)
    assert choice["text"] == drawn(run, "on day 3 the ", seed=1, max_tokens=4)[0].text
    assert not choice["text"].startswith(" ")
    ids = run.tokenizer.encode("on day 3 the ")
    [choice] = client.choices("cows", "on day 3 the ", echo=True, logprobs=0, max_tokens=0)
    own = log_probabilities(run.model, ids, run.tokenizer.eos)
    np.testing.assert_allclose(choice["logprobs"]["token_logprobs"][1:], own[1:-1], atol=1e-6)


def test_a_space_before_the_first_word_says_nothing_unless_it_is_to_be_measured(client: Client, runs: Runs):
    plain, spaced = (client.choices("cows", text, seed=1, max_tokens=4)[0]["text"] for text in ("on day", " on day"))
    assert plain == spaced == drawn(runs["cows"], " on day", seed=1, max_tokens=4)[0].text
    [choice] = client.choices("cows", " on day", echo=True, logprobs=0, max_tokens=0, return_token_ids=True)
    assert choice["prompt_token_ids"] == runs["cows"].tokenizer.encode(" on day").tolist()
    assert choice["text"] == " on day"


def test_offsets_of_words_are_those_in_the_text_without_the_spaces_that_are_added(client: Client):
    text = "on day\nthe cow,\nxyz"
    [choice] = client.choices("cows", text, echo=True, logprobs=0, max_tokens=0)
    tokens, offsets = choice["logprobs"]["tokens"], choice["logprobs"]["text_offset"]
    assert tokens == [" on", " day", "\n", " the", " cow", ",", "\n", " ", "x", "y", "z"]
    assert offsets == [0, 2, 6, 7, 10, 14, 15, 16, 16, 17, 18]


def test_null_is_the_default(client: Client):
    names = "max_tokens temperature top_p top_k min_p n best_of stop echo logprobs stream stream_options suffix user"
    nulls = dict.fromkeys([*names.split(), "presence_penalty", "frequency_penalty", "logit_bias", "repetition_penalty"])
    assert client.choices("lstm", PROMPT, seed=1, **nulls) == client.choices("lstm", PROMPT, seed=1)


def test_without_a_model_the_first_is_meant(client: Client):
    assert client.post("/v1/completions", prompt="on", max_tokens=1)["model"] == "cows"


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("temperature", [-0.1, 101, "1", True]),
        ("top_p", [-0.1, 1.1, "1"]),
        ("min_p", [-0.1, 1.1]),
        ("top_k", [-1, 10**7, 1.5, True]),
        ("repetition_penalty", [0, 101]),
        ("max_tokens", [-1, 16385, 1.5, "5", True, 10**30]),
        ("n", [0, 65, True]),
        ("best_of", [0, 65]),
        ("seed", [-1, 2**63, 0.5, "1"]),
        ("logprobs", [-1, 21, True]),
        ("stop", [5, [5], ["a" * 201], ["a" * 150] * 100, ["a"] * 1001]),
        ("echo", [1, "true"]),
        ("stream", [1, "true"]),
        ("stream_options", [5, {"include_usage": 1}, {"other": True}]),
        ("suffix", ["end", 5]),
        ("presence_penalty", [2.5, False]),
        ("frequency_penalty", [-2.5, "0"]),
        ("logit_bias", [{"5": 100.5}, {"a": 1}, {"-1": 1}, {"99999": 1}, {"5": "1"}, [5]]),
        ("prompt", [5, None, [], [[]], [-1], [2**40], [1.0], [True], ["a", 5], [1, "a"], [["a"]], {}, "a" * 100_001]),
        ("prompt", [[266 * 2], [[1], [99999]]]),
        ("max_token", [5]),
    ],
)  # fmt: skip
def test_what_is_out_of_bounds_is_refused_by_name(client: Client, field: str, values: list[Any]):
    for value in values:
        error = client.refused("/v1/completions", **{"prompt": "on", field: value})
        assert error["param"] == field, value
        assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_only_numbers_are_numbers(client: Client, word: str):
    answer = client.http.post("/v1/completions", content=f'{{"temperature": {word}}}')
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "temperature"


def test_what_does_not_go_together_is_refused(client: Client):
    error = client.refused("/v1/completions", prompt="on", n=3, best_of=2)
    assert error["message"] == "best_of must be at least n, got 2 and 3"
    error = client.refused("/v1/completions", prompt="on", best_of=2, stream=True)
    assert error["param"] == "best_of"


def test_a_misspelled_field_or_model_is_guessed(client: Client):
    assert "did you mean 'max_tokens'" in client.refused("/v1/completions", prompt="on", max_token=5)["message"]
    error = client.refused("/v1/completions", 404, prompt="on", model="cow")
    assert error["code"] == "model_not_found" and "did you mean 'cows'" in error["message"]
