"""Every route, for a run of every architecture: it is answered, with the right figures, or refused in one sentence.

The routes are those of the server itself, so none can be left out.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

import chainrule
from chainrule.analysis.explain.computation import GRAPHS
from chainrule.api import AnyRun
from chainrule.generation.batch import random_stream
from chainrule.models import contextmixing, ensemble
from chainrule.serving.app import make_app
from tests.contracts.runs import ALL, LANGUAGE, LEARNING, TEXT
from tests.serving.toys import toy_service

SERVED = [name for name in ALL if name != "tagger"]  # `chainrule serve` refuses it: see test_commands.py
NOT_OF_RUNS = {
    "/openapi.json": "the declarations of the others",
    "/": "the page, a file",
    "/web": "its scripts and styles, files",
}
PROMPT, SEED, TOKENS = "the cow", 1, 4
SAMPLED = {"prompt": PROMPT, "max_tokens": TOKENS, "seed": SEED}
SCORED = {"prompt": PROMPT, "max_tokens": 0, "echo": True, "logprobs": 1}
CHAT = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": TOKENS, "seed": SEED}
RESPOND = {"input": PROMPT, "max_output_tokens": TOKENS, "seed": SEED}

Answer = Any  # what JSON holds


@dataclass(frozen=True)
class Route:
    """What is asked, of the runs of which architectures it is answered, and what must be in the answer."""

    check: Callable[[AnyRun, Answer], None]
    asked: dict[str, Any] = field(default_factory=dict)  # the arguments of a request; with a body it is a POST
    done_by: Collection[str] = tuple(ALL)


def log_probabilities(model: Any, tokenizer: Any) -> np.ndarray:
    """Of the prompt's tokens, and at last of an end."""
    return model.score(np.array([tokenizer.eos, *tokenizer.encode(PROMPT), tokenizer.eos], np.uint32))


def stored(model: Any) -> Any:
    """The model, or the same without learning from what it scores."""
    if not isinstance(model, ensemble.Model):
        return model
    for part in model.parts:
        if isinstance(part, contextmixing.Model):
            part.config = replace(part.config, dynamic=False)
    return ensemble.Model(ensemble.Config(dynamic=False), model.parts, model.names, model.weights, model.learned_from)


def first_token(run: Any) -> str:
    return run.samples(PROMPT, temperature=1.0, seed=SEED, max_tokens=1)[0].text


def check_models(run: Any, answer: Answer) -> None:
    (listed,) = answer["data"]
    check_model(run, listed)


def check_model(run: Any, answer: Answer) -> None:
    assert (answer["id"], answer["architecture"]) == (run.path.name, run.path.name)
    assert answer["parameters"] == run.model.num_parameters


def check_health(run: Any, answer: Answer) -> None:
    assert answer == {"status": "ok", "waiting": 0, "decoding": 0}


def check_metrics(run: Any, answer: Answer) -> None:
    assert 'chainrule_requests_total{route="/health",status="200"} 1.0\n' in answer


def check_completions(run: Any, answer: Answer) -> None:
    assert answer["choices"][0]["text"] == run.samples(PROMPT, temperature=1.0, seed=SEED, max_tokens=TOKENS)[0].text


def check_chat(run: Any, answer: Answer) -> None:
    assert 1 <= answer["usage"]["completion_tokens"] <= TOKENS


def check_responses(run: Any, answer: Answer) -> None:
    """The text is the continuation of the transcript."""
    settings = {"temperature": 1.0, "seed": SEED, "max_tokens": TOKENS, "stop": ("\nUser:", "\nAssistant:")}
    [own] = run.samples(f"User: {PROMPT}\nAssistant:", **settings)
    assert answer["output"][0]["content"][0]["text"] == own.text.removeprefix(" ")


def check_embeddings(run: Any, answer: Answer) -> None:
    (found,) = answer["data"]
    np.testing.assert_allclose(found["embedding"], run.embed(PROMPT), rtol=1e-4, atol=1e-5)


def check_translation(run: Any, answer: Answer) -> None:
    assert answer["translations"][0]["text"] == run.translate("rot", max_tokens=TOKENS)


def check_alignment(run: Any, answer: Answer) -> None:
    assert [word.strip() for word in answer["source"]] == ["rot", "<eos>"]
    assert answer["text"] == run.translate("rot")


def check_tokenize(run: Any, answer: Answer) -> None:
    assert answer["tokens"] == run.tokenizer.encode(PROMPT).tolist()


def check_detokenize(run: Any, answer: Answer) -> None:
    assert answer["prompt"] == PROMPT


def check_tokenizer_info(run: Any, answer: Answer) -> None:
    assert (answer["vocab_size"], answer["eos_token_id"]) == (run.tokenizer.vocabulary_size, run.tokenizer.eos)


def check_dice(run: Any, answer: Answer) -> None:
    """The die rolled with the first number of the seed shows the token that the seed samples."""
    (column,) = answer["columns"]
    assert column["drawn"]["text"] == first_token(run)
    assert column["faces"][0]["probability"] == pytest.approx(run.explain(PROMPT).probability, rel=1e-5)


def check_rolls(run: Any, answer: Answer) -> None:
    assert answer["rolls"] == [random_stream(SEED, 0).random()]


def check_explain(run: Any, answer: Answer) -> None:
    assert answer["probability"] == pytest.approx(run.explain(PROMPT).probability, rel=1e-5)


def check_compare(run: Any, answer: Answer) -> None:
    """The bits are those of the model's own scores; None: impossible."""
    (told,) = answer["models"]
    bits = [*(token["bits"] for token in told["tokens"]), told["end_bits"]]
    expected = -log_probabilities(run.model, run.tokenizer).astype(np.float64) / np.log(2)
    np.testing.assert_allclose([np.inf if each is None else each for each in bits], expected, rtol=1e-5, atol=1e-6)
    assert told["bits_per_byte"] == (pytest.approx(expected.sum() / len(PROMPT)) if None not in bits else None)


def check_trainings(run: Any, answer: Answer) -> None:
    (listed,) = answer["data"]
    assert (listed["name"], listed["status"]) == (run.path.name, "done")


def check_training(run: Any, answer: Answer) -> None:
    history = chainrule.runs.folder.Run(run.path, task=None).metrics
    assert [each["event"] for each in answer["data"]] == [each["event"] for each in history]


def check_leaderboards(run: Any, answer: Answer) -> None:
    assert answer == {"data": []}  # with a comparison: test_commands.py


def check_graphs(run: Any, answer: Answer) -> None:
    assert answer["data"] == list(GRAPHS)


def check_graph(run: Any, answer: Answer) -> None:
    assert (answer["model"], answer["nodes"][-1]["gradient"]["numbers"]) == (run.path.name, [1.0])


def check_passage(run: Any, answer: Answer) -> None:
    line = TEXT.splitlines()[answer["line"] - 1]
    assert answer["prompt"] and answer["continuation"] and line.startswith(answer["prompt"] + answer["continuation"])


ROUTES = {
    "/v1/models": Route(check_models),
    "/v1/models/{id:path}": Route(check_model),
    "/health": Route(check_health),
    "/metrics": Route(check_metrics),
    "/v1/completions": Route(check_completions, {"json": SAMPLED}, LANGUAGE),
    "/v1/chat/completions": Route(check_chat, {"json": CHAT}, LANGUAGE),
    "/v1/responses": Route(check_responses, {"json": RESPOND}, LANGUAGE),
    "/v1/embeddings": Route(check_embeddings, {"json": {"input": PROMPT}}, LEARNING),
    "/v1/translate": Route(check_translation, {"json": {"text": "rot", "max_tokens": TOKENS}}, ["conditional"]),
    "/alignment": Route(check_alignment, {"json": {"text": "rot"}}, ["conditional"]),
    "/tokenize": Route(check_tokenize, {"json": {"prompt": PROMPT}}, LANGUAGE),
    "/detokenize": Route(check_detokenize, {"json": {"tokens": list(PROMPT.encode())}}, LANGUAGE),
    "/tokenizer_info": Route(check_tokenizer_info, {}, LANGUAGE),
    "/dice": Route(
        check_dice, {"json": {"roll": random_stream(SEED, 0).random(), "columns": [{"prompt": PROMPT}]}}, LANGUAGE
    ),
    "/rolls": Route(check_rolls, {"params": {"seed": SEED, "count": 1}}),
    "/explain": Route(check_explain, {"json": {"prompt": PROMPT}}, LANGUAGE),
    "/compare": Route(check_compare, {"json": {"text": PROMPT}}, LANGUAGE),
    "/trainings": Route(check_trainings),
    "/trainings/{name:path}": Route(check_training),
    "/leaderboards": Route(check_leaderboards),
    "/graphs": Route(check_graphs),
    "/graphs/{model}": Route(check_graph, {}, GRAPHS),
    "/passages": Route(
        check_passage, {"params": {"characters": 8}}, [name for name in LANGUAGE if name != "mix"]
    ),  # a mix has no text of its own
}


def ask(client: TestClient, path: str, asked: dict[str, Any], name: str) -> Any:
    address = re.sub(r"{\w+(:path)?}", name, path)
    return client.request("POST" if "json" in asked else "GET", address, **asked)


def test_every_route_is_here(bigram: Path):
    app = make_app(toy_service([bigram]))
    assert sorted(route.path for route in app.routes) == sorted([*ROUTES, *NOT_OF_RUNS])


@pytest.mark.parametrize("run", SERVED, indirect=True)
def test_it_is_answered_or_refused_in_one_sentence(run: Path):
    loaded = chainrule.load(run)
    with TestClient(make_app(toy_service([run])), base_url="http://localhost") as client:
        for path, route in ROUTES.items():
            answer = ask(client, path, route.asked, run.name)
            if run.name in route.done_by:
                assert answer.status_code == 200, (path, answer.text)
                is_json = answer.headers["content-type"] == "application/json"
                route.check(loaded, answer.json() if is_json else answer.text)
            else:
                assert answer.status_code in (400, 404), (path, answer.text)
                assert len(answer.json()["error"]["message"].split()) > 5


@pytest.mark.parametrize("run", LANGUAGE, indirect=True)
def test_scores_of_a_prompt_are_the_models_own(run: Path):
    with TestClient(make_app(toy_service([run])), base_url="http://localhost") as client:
        answer = ask(client, "/v1/completions", {"json": SCORED}, run.name)
    found = answer.json()["choices"][0]["logprobs"]["token_logprobs"]
    assert found[0] is None
    loaded = chainrule.load(run)
    expected = log_probabilities(stored(loaded.model), loaded.tokenizer)[1:-1]
    np.testing.assert_allclose(found[1:], np.maximum(expected, -9999), rtol=1e-4, atol=1e-5)
