"""Every command, on a run of every architecture: it is done, with the right figures, or refused in one sentence.

The commands are those of `chainrule --help` and the architectures those of the folder, so none can be left out. An
infinity-gram may find a text impossible, and is then left out of a comparison.
"""

import io
import json
import socket
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
import typer.main
from fastapi.testclient import TestClient

import chainrule
from chainrule import registry
from chainrule.analysis.explain.computation import GRAPHS, computation
from chainrule.cli.main import app, main
from chainrule.generation import Sampling
from chainrule.generation.chat_session import ChatSession
from chainrule.interop.base import exporters
from chainrule.runs.folder import Run
from chainrule.serving.app import make_app
from chainrule.serving.model_provider import ModelProvider
from chainrule.serving.scheduler import Scheduler
from chainrule.serving.service import Service
from tests.contracts.runs import ALL, LANGUAGE, LEARNING, PARTS

COUNTED = ["the red cow eats hay", "the old cow eats hay"]  # not among the lines that are kept aside
TEMPLATE = """
text = "the {animal} eats"
fields = {animal = "which one"}
sampling = {max_tokens = 5, temperature = 0.0}
"""
DRAWN = {"seed": 1, "max_tokens": 5}
QUESTION = "the cow"  # on standard input

Result = tuple[int, str, str]  # exit code, standard output, standard error


@dataclass(frozen=True)
class Case:
    """A run, what lies beside it, and a way to call commands; `names` are what arguments may name in braces."""

    run: Path
    call: Callable[..., Result]
    names: dict[str, object] = field(default_factory=dict)

    def __call__(self, *arguments: str) -> Result:
        return self.call(*(each.format(**self.names) for each in arguments))

    def load(self) -> Any:
        return chainrule.load(self.run)


@pytest.fixture
def case(
    run: Path,
    text: Path,
    bigram: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Case]:
    """Commands are called in an empty folder, but for a template of a prompt and two lines of the text; standard input
    is a question."""
    Path("template.toml").write_text(TEMPLATE)
    Path("lines.txt").write_text("".join(f"{line}\n" for line in COUNTED))
    monkeypatch.setattr(sys, "stdin", io.StringIO(QUESTION))

    def call(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["chainrule", *arguments])
        with pytest.raises(SystemExit) as exit:
            main()
        return int(exit.value.code or 0), *capsys.readouterr()

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        yield Case(
            run,
            call,
            {"run": run, "name": run.name, "folder": run.parent, "text": text, "bigram": bigram, "port": port},
        )


@dataclass(frozen=True)
class Command:
    """Its arguments, the architectures whose runs it takes, what its output must be, what its refusal must say."""

    arguments: tuple[str, ...]
    done_by: Collection[str] = ()
    check: Callable[[Case, Any], None] | None = None  # of the JSON that is printed
    refusal: str = "{name}"


def check_show(case: Case, found: Any) -> None:
    assert found["config"]["architecture"] == case.run.name


def check_list(case: Case, found: Any) -> None:
    (own,) = [each for each in found if each["run"] == str(case.run)]
    assert (own["model"], own["status"]) == (case.run.name, "finished")
    assert own["parameters"] == Run(case.run, task=None).model.num_parameters


def check_evaluate(case: Case, found: Any) -> None:
    bits = case.load().evaluate(case.names["text"])["bits_per_byte"]
    assert bits > 0 and found["bits_per_byte"] == (bits if isfinite(bits) else None)
    assert isfinite(bits) or found["impossible_tokens"]


def check_sample(case: Case, found: Any) -> None:
    assert [each["text"] for each in found["samples"]] == [case.load().samples("the ", **DRAWN)[0].text]
    lines = [f"the {cow} cow eats {food}" for cow in ("red", "old") for food in ("hay", "grass")]
    assert case.load().sample("the ", regex="(red|old) cow eats (hay|grass)") in lines


def check_chat(case: Case, found: Any) -> None:
    """The answer goes on with a transcript, unless the run has a style of its own; the next one is that of the whole
    conversation, read anew."""
    run = case.load()
    if run.tokenizer.chat is None:
        stop = ("\nUser:", "\nAssistant:")
        (alone,) = run.samples(f"User: {QUESTION}\nAssistant:", stop=stop, **DRAWN)
        assert found["answer"] == alone.text.removeprefix(" ")
        assert [each["id"] for each in found["tokens"]] == list(alone.ids)
    kept, anew = (ChatSession(run.model, run.tokenizer, Sampling(temperature=0.0, max_tokens=5)) for _ in range(2))
    for question in (QUESTION, "hay"):
        answer = "".join(kept.ask(question))
    anew.history.load(kept.history.messages[:-1])
    assert answer == "".join(anew.retry()) == "".join(kept.retry())


def check_prompt(case: Case, found: Any) -> None:
    (sample,) = found["samples"]
    assert found["prompt"] == "the cow eats"
    assert sample["text"].strip() == case.load().prompt("template.toml", animal="cow")
    assert sample["text"] == case.load().samples("the cow eats", temperature=0.0, max_tokens=5)[0].text


def check_explain(case: Case, found: Any) -> None:
    if case.run.name in LANGUAGE:
        assert found["probability"] == pytest.approx(case.load().explain("the cow").probability)
        assert 0 < found["probability"] <= 1


def check_doctor(case: Case, found: Any) -> None:
    assert [each["name"] for each in found["findings"]] == [each.name for each in case.load().doctor()] != []


def check_plan(case: Case, found: Any) -> None:
    assert found["model"]["parameters"]["total"] == case.load().model.num_parameters


def check_graph(case: Case, found: Any) -> None:
    assert found["nodes"] == sum(node.kind == "module" for node in computation(case.run.name, 3)) > 0


def check_export(case: Case, found: Any) -> None:
    header = Path(found["path"]).read_text(encoding="utf-8").partition("\\1-grams:")[0]
    assert f"ngram 3={case.load().model.describe()['3-grams']}\n" in header


def check_compare(case: Case, found: Any) -> None:
    """The table has both runs, and a server of them shows it with their names."""
    bits = {row["model"]: row["bits"] for row in found["models"]}
    is_possible = case.load().evaluate(case.names["text"])["impossible_tokens"] == 0
    assert bits.keys() == {str(case.names["bigram"]), *([str(case.run)] if is_possible else [])}
    service = Service(ModelProvider([case.load()]), Scheduler(), comparisons=(Path("compared"),))
    with TestClient(make_app(service), base_url="http://localhost") as client:
        (shown,) = client.get("/leaderboards").json()["data"]
    assert {row["model"]: row["bits"] for row in shown["table"]["models"]} == bits
    assert {row["id"] for row in shown["table"]["models"]} == {None, *([case.run.name] if is_possible else [])}


def check_mix(case: Case, found: Any) -> None:
    assert [part["architecture"] for part in found["validation"]["parts"]] == [case.run.name, "ngram"]


def check_merge(case: Case, found: Any) -> None:
    assert chainrule.load("merged").model.trie.count[0] == 2 * case.load().model.trie.count[0]


def check_forget(case: Case, found: Any) -> None:
    taken = sum(len(line) + 1 for line in COUNTED)  # an end of each, too
    assert found["documents"] == len(COUNTED)
    assert chainrule.load("forgotten").model.trie.count[0] == case.load().model.trie.count[0] - taken


def check_translate(case: Case, found: Any) -> None:
    assert [line["texts"][0]["text"] for line in found["lines"]] == case.load().translate(COUNTED)


def check_tag(case: Case, found: Any) -> None:
    assert [each["words"] for each in found] == [line.split() for line in COUNTED]
    assert [each["upos"] for each in found] == [each["upos"] for each in case.load().tag(COUNTED)]


COMMANDS = {
    "train": Command(("--resume", "{run}"), refusal="the training of '{run}' is finished"),
    "compare": Command(
        ("{text}", "--models", "{run} {bigram}", "--unit", "line", "--as", "compared", "--json"),
        LANGUAGE,
        check_compare,
    ),
    "sample": Command(
        ("{run}", "--prompt", "the ", "--seed", "1", "--max-tokens", "5", "--json"), LANGUAGE, check_sample
    ),
    "chat": Command(("{run}", "--seed", "1", "--max-tokens", "5", "--json"), LANGUAGE, check_chat),
    "prompt": Command(("template.toml", "{run}", "animal=cow", "--json"), LANGUAGE, check_prompt),
    "translate": Command(("{run}", "lines.txt", "--json"), ["conditional"], check_translate),
    "tag": Command(("{run}", "lines.txt", "--json"), ["tagger"], check_tag),
    "evaluate": Command(("{run}", "{text}", "--json"), LANGUAGE, check_evaluate, refusal="{text}"),
    "explain": Command(("{run}", "the cow", "--json"), ALL, check_explain),
    "mix": Command(
        ("{run}", "{bigram}", "--as", "mixed", "--json"), [name for name in LANGUAGE if name != "mix"], check_mix
    ),
    "serve": Command(("{run}", "--port", "{port}"), refusal="cannot listen at 127.0.0.1:{port}"),
    "doctor": Command(("{run}", "--json"), LANGUAGE, check_doctor),
    "list": Command(("{folder}", "--json"), ALL, check_list),
    "show": Command(("{run}", "--json"), ALL, check_show),
    "plan": Command(("{run}", "--machine", "a100", "--json"), LEARNING, check_plan),
    "graph": Command(("--model", "{name}", "--length", "3", "--json"), GRAPHS, check_graph),
    "export": Command(("{run}", "--to", "arpa", "--json"), ["ngram"], check_export),
    "import": Command(("{run}",), refusal="'{run}' is a run already"),
    "merge": Command(("{run}", "{run}", "--as", "merged", "--json"), ["ngram"], check_merge),
    "forget": Command(("{run}", "lines.txt", "--as", "forgotten", "--json"), ["ngram"], check_forget),
}


def assert_one_sentence(result: Result) -> None:
    code, _, err = result
    assert code == 2 and err.startswith("chainrule: ") and err.count("\n") == 1, err


def test_every_command_and_every_architecture_is_here(text: Path):
    assert COMMANDS.keys() == typer.main.get_group(app).commands.keys()
    assert sorted([*ALL, *PARTS]) == registry.names("chainrule.models")


@pytest.mark.parametrize("name", COMMANDS)
def test_it_is_done_or_refused_in_one_sentence(case: Case, name: str):
    command = COMMANDS[name]
    result = case(name, *command.arguments)
    if case.run.name in command.done_by and command.check:
        assert result[0] == 0, result[2]
        command.check(case, json.loads(result[1]))
    else:
        assert_one_sentence(result)
        is_served = (name, case.run.name) != ("serve", "tagger")
        assert (command.refusal.format(**case.names) if is_served else "which is not served") in result[2]


@pytest.mark.parametrize("format", exporters())
def test_it_is_exported_or_refused(case: Case, format: str):
    result = case("export", "{run}", "--to", format)
    if result[0]:
        assert_one_sentence(result)
    else:
        assert Path(result[1].strip()).exists()


@pytest.mark.parametrize("run", LANGUAGE, indirect=True)
def test_ways_to_sample_agree(case: Case):
    """One of several is the one alone, and what a draft guesses changes nothing."""
    sample = ("sample", "{run}", "--prompt", "the ", "--max-tokens", "5")
    alone, several, drafted = (case(*sample, "--seed", "1", *more) for more in ((), ("-n", "2"), ("--draft", "lookup")))
    assert [result[0] for result in (alone, several, drafted)] == [0, 0, 0]
    assert several[1].startswith(alone[1].rstrip("\n")) and drafted[1] == alone[1]
    searched = case(*sample, "--beam", "2")
    assert searched[:2] == (0, "the " + case.load().beam_search("the ", width=2, max_tokens=5)[0].text + "\n")
    rounded = case(*sample, "--quantize", "int8")
    if case.run.name in LEARNING:
        assert rounded[0] == 0, rounded[2]
    else:
        assert_one_sentence(rounded)


@pytest.mark.parametrize("run", LANGUAGE, indirect=True)
def test_the_page_of_an_explanation_has_its_probability(case: Case):
    assert case("explain", "{run}", "the cow", "--html", "page.html")[0] == 0
    assert f"{case.load().explain('the cow').probability:.4f}" in Path("page.html").read_text(encoding="utf-8")
