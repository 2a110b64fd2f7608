"""A question from a pipe is answered once: as the server answers it, and with nothing else on standard output."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import chainrule as package

Result = tuple[int, str, str]
DRAWN = ("--seed", "7", "--max-tokens", "20")
TRANSCRIPT = "User: the old cow\nAssistant:"
STOPS = ("\nUser:", "\nAssistant:")


@pytest.fixture
def run(chainrule: Callable[..., Result], cows: Path) -> str:
    assert chainrule("train", cows, "--order", 3)[0] == 0
    return "runs/cows"


@pytest.fixture
def piped(chainrule: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """piped("a question", "runs/cows", "--seed", "1")"""

    def call(question: str, *arguments: str) -> Result:
        monkeypatch.setattr(sys, "stdin", io.StringIO(question))
        return chainrule("chat", *arguments)

    return call


def expected(prompt: str = TRANSCRIPT, **settings: object) -> str:
    drawn = package.load("runs/cows").samples(prompt, stop=STOPS, **{"seed": 7, "max_tokens": 20, **settings})
    return drawn[0].text.removeprefix(" ")


def test_the_answer_alone_is_printed(piped, run):
    assert piped("the old cow\n", run, *DRAWN) == (0, expected() + "\n", "")


def test_flags_are_those_of_sample(piped, run):
    assert piped("the old cow", run, *DRAWN, "--greedy")[1] == expected(temperature=0.0) + "\n"
    assert piped("the old cow", run, *DRAWN, "--top-k", "2", "--temperature", "1.5")[1] == (
        expected(top_k=2, temperature=1.5) + "\n"
    )
    system = piped("the old cow", run, *DRAWN, "--system", "on day 3")
    assert system[1] == expected(f"on day 3\n\n{TRANSCRIPT}") + "\n"


def test_json_has_the_answer_its_end_and_its_tokens(piped, run):
    code, out, err = piped("the old cow", run, *DRAWN, "--json")
    found = json.loads(out)
    assert (code, err, found["question"], found["seed"]) == (0, "", "the old cow", 7)
    assert found["answer"] == expected()
    assert found["finish_reason"] in ("stop", "length")
    (sample,) = package.load("runs/cows").samples(TRANSCRIPT, stop=STOPS, seed=7, max_tokens=20)
    assert [each["id"] for each in found["tokens"]] == list(sample.ids)
    assert [each["log_probability"] for each in found["tokens"]] == pytest.approx(sample.log_probabilities)


def test_a_line_that_begins_with_a_slash_is_a_question_in_a_pipe(piped, run):
    assert piped("/exit", run, *DRAWN)[1] == expected("User: /exit\nAssistant:") + "\n"


def test_a_conversation_is_saved_and_gone_on_with(piped, run):
    first = piped("the old cow", run, *DRAWN, "--save", "chats.jsonl")[1].removesuffix("\n")
    said = [{"role": "user", "content": "the old cow"}, {"role": "assistant", "content": first}]
    (saved,) = map(json.loads, Path("chats.jsonl").read_text().splitlines())
    assert [{**each, "weight": 1} for each in saved["messages"]] == [{**each, "weight": 1} for each in said]
    prompt = f"{TRANSCRIPT} {first}\nUser: on day\nAssistant:"
    again = piped("on day", run, *DRAWN, "--load", "chats.jsonl", "--save", "chats.jsonl")
    assert again == (0, expected(prompt) + "\n", "")
    (saved,) = map(json.loads, Path("chats.jsonl").read_text().splitlines())
    assert [each["content"] for each in saved["messages"]][2:] == ["on day", expected(prompt)]


def test_a_conversation_that_was_left_with_a_question_is_answered(piped, run):
    Path("open.jsonl").write_text('{"messages": [{"role": "user", "content": "the old cow"}]}\n')
    code, out, _ = piped("", run, *DRAWN, "--load", "open.jsonl", "--json", "--greedy")
    assert (code, json.loads(out)["answer"]) == (0, expected(temperature=0.0))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "there is no question: standard input is empty; pipe one in, or chat in a terminal"),
        (("--load", "absent.jsonl"), "cannot read 'absent.jsonl': No such file or directory"),
        (
            ("--save", "cows.txt"),
            "conversation 1 of 'cows.txt' is not a JSON object; a conversation a line is expected",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence(piped, run, cows, monkeypatch, arguments, sentence):
    code, out, err = piped(" \n", run, *arguments)
    assert (code, out, err) == (2, "", f"chainrule: {sentence}\n")


def test_a_run_of_another_task_is_refused_before_the_question_is_read(chainrule, tmp_path):
    code, _, err = chainrule("chat", "runs/absent")
    assert code == 2 and err.startswith("chainrule: run 'runs/absent' not found")


def test_a_closed_standard_input_is_told(run):
    line = f'exec "{sys.executable}" -m chainrule chat runs/cows <&-'
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "chainrule: the question is read from standard input, which is closed; pipe one in, or chat in a terminal\n"
    )
