"""`chainrule prompt`: the answer is what `sample` says after the filled prompt."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import chainrule as package
from tests.cli.conftest import Result

OWN = """
text = "on day {day} the"
[fields]
day = "its number"
[sampling]
max_tokens = 6
temperature = 0.5
"""


@pytest.fixture
def run(chainrule: Callable[..., Result], cows: Path) -> str:
    assert chainrule("train", cows, "--order", 3)[0] == 0
    Path("own.toml").write_text(OWN)
    return "runs/cows"


def test_the_answer_is_the_sample_after_the_filled_prompt(chainrule, run):
    _, answer, _ = chainrule("prompt", "own.toml", run, "day=3", "--seed", 4)
    _, whole, _ = chainrule(
        "sample", run, "--prompt", "on day 3 the", "--seed", 4, "--max-tokens", 6, "--temperature", 0.5
    )
    assert answer.strip() and whole == f"on day 3 the {answer}"
    _, out, _ = chainrule("prompt", "own.toml", run, "day=3", "--seed", 4, "--json", "--logprobs", 2)
    result = json.loads(out)
    assert (result["prompt"], result["template"], result["seed"]) == ("on day 3 the", "own.toml", 4)
    assert result["samples"][0]["text"].strip() == answer.strip()
    assert len(result["samples"][0]["tokens"][0]["alternatives"]) == 2
    assert package.load(run).prompt("own.toml", day="3", seed=4) == answer.strip()


def test_flags_are_stronger_than_the_template(chainrule, run):
    _, greedy, _ = chainrule("prompt", "own.toml", run, "day=3", "--greedy", "--max-tokens", 2)
    _, whole, _ = chainrule("sample", run, "--prompt", "on day 3 the", "--greedy", "--max-tokens", 2)
    assert whole == f"on day 3 the {greedy}"
    word = greedy.split()[1]
    _, stopped, _ = chainrule("prompt", "own.toml", run, "day=3", "--greedy", "--stop", word)
    assert stopped.split() == greedy.split()[:1]
    assert package.load(run).prompt("own.toml", day="3", temperature=0, max_tokens=2) == greedy.strip()
    _, several, _ = chainrule("prompt", "own.toml", run, "day=3", "-n", 3, "--greedy", "--max-tokens", 2)
    assert several == greedy * 3


def test_fields_come_from_standard_input_and_show_runs_nothing(chainrule, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("He go home.\n"))
    code, out, _ = chainrule("prompt", "grammar", "--show", "sentence=-")
    assert code == 0
    assert out.endswith("\nPoor English: He go home.\nGood English:\n")
    _, shown, _ = chainrule("prompt", "grammar", "runs/none", "sentence=a = b", "--show", "--json")
    assert json.loads(shown)["prompt"].endswith("\nPoor English: a = b\nGood English:")


def test_the_list_has_every_field(chainrule):
    _, out, _ = chainrule("prompt", "--list")
    for word in ("grammar", "news", "qa", "sentence", "title", "subtitle", "passage", "question"):
        assert word in out
    _, out, _ = chainrule("prompt", "--list", "--json")
    assert [each["name"] for each in json.loads(out)] == ["grammar", "news", "qa"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "name a template, then a run; the templates: chainrule prompt --list"),
        (["qa"], "name the run after the template; to see the prompt without one, pass --show"),
        (["qa", "runs/none", "passage=a"], "'qa' lacks question (its fields are: passage, question)"),
        (["qa", "runs/none", "what"], "fields are filled by FIELD=TEXT, got 'what'"),
        (["grammar", "runs/none", "sentence=a"], "run 'runs/none' not found"),
    ],
)
def test_mistakes_are_one_sentence(chainrule, arguments: list[str], sentence: str):
    code, out, err = chainrule("prompt", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"chainrule: {sentence}") and err.count("\n") == 1


def test_a_prompt_that_is_too_long_says_so(chainrule, cows):
    settings = ("--model", "transformer", "--size", "tiny", "--tokenizer", "bytes", "--steps", 1)
    settings += ("--set", "context_length=32")
    assert chainrule("train", cows, *settings, "--as", "runs/short")[0] == 0
    code, _, err = chainrule("prompt", "grammar", "runs/short", "sentence=He go home.")
    assert code == 2
    assert "tokens but this model reads 32; shorten it or pass --truncate" in err
    code, _, _ = chainrule("prompt", "grammar", "runs/short", "sentence=He go home.", "--truncate", "--max-tokens", 2)
    assert code == 0
