"""/v1/translate says what `chainrule translate` says, alone and among others; /alignment what `explain` says."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.testclient import TestClient

from chainrule.analysis.explain.alignment import explain_translation, link_words
from chainrule.api.pairs import PairsRun, load_pairs_run
from chainrule.errors import UserError
from chainrule.generation.beam import Beam
from chainrule.runs.folder import Run
from chainrule.serving.app import make_app
from chainrule.serving.model_provider import ModelProvider, find_runs
from tests.serving.conftest import Client
from tests.serving.running import run_apart
from tests.serving.toys import toy_service
from tests.tasks.toys import sentences

NAMES = ["cross", "additive"]


@pytest.fixture(scope="module")
def both(folders: dict[str, Path], translators: list[Path]) -> Iterator[Client]:
    """A language model, then the translators."""
    app = make_app(toy_service([folders["cows"], *translators]))
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as http:
        yield Client(http)


@pytest.fixture(scope="module")
def alone(translators: list[Path]) -> Iterator[Client]:
    """Nothing but translators."""
    with TestClient(make_app(toy_service(translators)), base_url="http://127.0.0.1") as http:
        yield Client(http)


@pytest.fixture(scope="module")
def loaded(translators: list[Path]) -> dict[str, PairsRun]:
    return {path.name: load_pairs_run(path) for path in translators}


def ask_all(paths: list[Path], bodies: list[dict[str, Any]]) -> list[Any]:
    """All at once, of a server in this process."""

    async def main() -> list[httpx.Response]:
        app = make_app(toy_service(paths))
        transport = httpx.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60) as http,
        ):
            return await asyncio.gather(*(http.post("/v1/translate", json=body) for body in bodies))

    answers = run_apart(main())
    assert {answer.status_code for answer in answers} == {200}
    return [answer.json()["translations"] for answer in answers]


@pytest.mark.parametrize("name", NAMES)
def test_twenty_at_once_are_what_the_command_says_of_each(name: str, translators: list[Path], loaded, both: Client):
    lines = sentences(20, seed=5)
    expected = loaded[name].task.write(loaded[name].model, lines, Beam(5, 1.0, 200, 3))
    assert len({each.texts[0] for each in expected}) > 8
    bodies = [{"model": name, "text": line, "n": 3} for line in lines]
    for line, (found,), wanted in zip(lines, ask_all(translators, bodies), expected, strict=True):
        (single,) = both.post("/v1/translate", model=name, text=line, n=3)["translations"]
        for each in (found, single):
            targets = [each, *each["others"]]
            assert [target["text"] for target in targets] == wanted.texts
            assert [target["score"] for target in targets] == pytest.approx(
                [one.score for one in wanted.found], abs=1e-5
            )


def test_settings_are_those_of_the_command(both: Client, loaded):
    run, lines = loaded["cross"], sentences(6, seed=8)
    beam = Beam(3, -0.5, 2, 2)
    expected = run.task.write(run.model, lines, beam)
    asked = {"beam": 3, "n": 2, "length_penalty": -0.5, "max_tokens": 2}
    answer = both.post("/v1/translate", model="cross", text=lines, **asked)
    for found, wanted in zip(answer["translations"], expected, strict=True):
        targets = [found, *found["others"]]
        assert [each["text"] for each in targets] == wanted.texts
        reasons = ["stop" if one.finish_reason == "eos" else "length" for one in wanted.found]
        assert [each["finish_reason"] for each in targets] == reasons
    assert answer["object"] == "translation" and answer["model"] == "cross"
    read = sum(len(run.task.encode_source(line)) for line in lines)
    written = sum(len(one.ids) for each in expected for one in each.found)
    assert answer["usage"] == {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def test_alignments_are_those_of_the_command(both: Client, loaded):
    run, line = loaded["additive"], "rot blau neu"
    (found,) = both.post("/v1/translate", model="additive", text=line, n=2, alignments=True)["translations"]
    for target in (found, *found["others"]):
        assert target["alignment"] == link_words(run.task, run.model, line, target["text"])
    assert found["alignment"]


def test_an_empty_text_is_an_empty_translation(both: Client):
    found = both.post("/v1/translate", text=["", "rot", " \n"], alignments=True)["translations"]
    assert found[0] == found[2] == {"text": "", "score": None, "finish_reason": "stop", "alignment": "", "others": []}
    assert found[1]["score"] < 0


def test_the_alignment_is_the_explanation(both: Client, loaded):
    run = loaded["cross"]
    told = both.post("/alignment", model="cross", text="gross alt neu", beam=3)
    found = explain_translation(run.task, run.model, "gross alt neu", 3).to_json()
    assert [told[name] for name in ("source", "target", "text")] == [
        found[name] for name in ("source", "target", "text")
    ]
    for name in ("probabilities", "attention", "attribution"):
        np.testing.assert_allclose(told[name], found[name], atol=1e-4)
    tokens = [[(branch["token"], branch["parent"]) for branch in step] for step in found["beam"]]
    assert [[(branch["token"], branch["parent"]) for branch in step] for step in told["beam"]] == tokens
    assert "nothing to translate" in both.refused("/alignment", text=" ")["message"]
    assert "has 129 tokens, and no more than 128" in both.refused("/alignment", text="rot " * 129)["message"]


def test_a_text_that_is_too_long_is_told_by_its_number(both: Client):
    error = both.refused("/v1/translate", text=["rot", "rot " * 256])
    assert error["message"] == "text 2 of 2 has 256 tokens but this model reads 255; shorten it"
    assert (error["param"], error["code"]) == ("text", "context_length_exceeded")
    assert both.refused("/v1/translate", text="rot " * 256)["message"].startswith("the text has 256 tokens")
    assert both.post("/v1/translate", text="rot " * 255, beam=1, max_tokens=1)["translations"][0]["text"] is not None


def test_more_texts_than_the_beam_holds_are_refused(both: Client):
    error = both.refused("/v1/translate", text="rot", beam=2, n=3)
    assert error["message"] == "n must be at most the width of the beam, got n 3 and beam 2; use a wider beam"


LANGUAGE = {
    "/v1/completions": {"prompt": "rot"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "rot"}]},
    "/tokenize": {"prompt": "rot"},
    "/detokenize": {"tokens": [0]},
    "/explain": {"prompt": "rot"},
}


@pytest.mark.parametrize("path", LANGUAGE)
def test_a_translator_continues_no_text_and_says_who_to_ask(both: Client, alone: Client, path: str):
    error = both.refused(path, model="cross", **LANGUAGE[path])
    said = "'cross' is a run of the task translation, and this is for language models; use /v1/translate"
    assert (error["message"], error["param"], error["code"]) == (said, "model", "wrong_task")
    assert both.http.post(path, json=LANGUAGE[path]).status_code == 200  # the first language model
    error = alone.refused(path, 404, **LANGUAGE[path])
    assert error["message"] == "no language model is served here; use /v1/translate"


def test_so_do_dice_comparisons_and_passages(both: Client, alone: Client):
    for client, status, model in ((both, 400, "cross"), (alone, 404, None)):
        named = {} if model is None else {"model": model}
        assert "/v1/translate" in client.refused("/dice", status, columns=[named], roll=0.5)["message"]
        some = {} if model is None else {"models": [model]}
        assert "/v1/translate" in client.refused("/compare", status, text="rot", **some)["message"]
        answer = client.http.get("/passages", params=named)
        assert answer.status_code == status and "/v1/translate" in answer.json()["error"]["message"]
    assert [each["model"] for each in both.post("/compare", text="on day")["models"]] == ["cows"]


def test_a_language_model_translates_nothing_and_says_who_to_ask(both: Client, client: Client):
    error = both.refused("/v1/translate", model="cows", text="rot")
    said = "'cows' is a language model, and this is for runs that write one text from another; use /v1/completions"
    assert (error["message"], error["param"], error["code"]) == (said, "model", "wrong_task")
    assert both.post("/v1/translate", text="rot")["model"] == "cross"  # the first that does
    assert "/v1/completions" in client.refused("/v1/translate", 404, text="rot")["message"]
    assert (
        "there is no model 'crss'; did you mean"
        in both.refused("/v1/translate", 404, model="crss", text="x")["message"]
    )


def test_models_are_listed_with_their_tasks(both: Client, loaded):
    found = both.http.get("/v1/models").json()["data"]
    assert [(each["id"], each["task"]) for each in found] == [
        ("cows", "language"), ("cross", "translation"), ("additive", "translation"),
    ]  # fmt: skip
    assert found[1]["context_length"] == loaded["cross"].model.config.longest - 1


def test_runs_of_all_kinds_are_sorted_out_and_warmed_up(folders: dict[str, Path], translators: list[Path]):
    runs, _ = find_runs([str(folders["cows"]), *map(str, translators)])
    library = ModelProvider(runs)
    library.load()
    library.warm_up()
    assert [each.pair_task is None for each in library] == [True, False, False]


def test_a_tagger_is_not_served(folders: dict[str, Path]):
    run = Run(folders["cows"])
    run.config["task"] = "tagging"
    with pytest.raises(UserError, match="is a run of the task tagging, which is not served; use chainrule tag"):
        ModelProvider([run])


def test_tokens_are_counted(both: Client):
    def count(name: str) -> float:
        lines = both.http.get("/metrics").text.splitlines()
        return sum(
            float(line.split()[-1]) for line in lines if line.startswith(f'chainrule_{name}_total{{model="cross"')
        )

    before = count("prompt_tokens"), count("generated_tokens")
    usage = both.post("/v1/translate", model="cross", text=["rot", "blau neu"])["usage"]
    assert count("prompt_tokens") - before[0] == usage["prompt_tokens"] == 3
    assert count("generated_tokens") - before[1] == usage["completion_tokens"]
