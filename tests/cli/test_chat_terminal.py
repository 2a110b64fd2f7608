"""A chat in a real terminal: what is typed, what is seen, and how it is stopped and left."""

import json
import os
from pathlib import Path

import pytest

import chainrule
from tests.cli.cows import LINES

if os.name != "posix":
    pytest.skip("needs a terminal", allow_module_level=True)

from tests.cli.typist import CTRL_C, CTRL_D, PROMPT, Typist

ENDLESS = "/set min_tokens=1000000 max_tokens=1000000"
DRAWN = ("--seed", "7", "--max-tokens", "20")
STOPS = ("\nUser:", "\nAssistant:")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with a run of cows and one of text that would turn a terminal red."""
    home = tmp_path_factory.mktemp("home")
    (home / "cows.txt").write_text("\n".join(LINES) + "\n")
    (home / "red.txt").write_text("\n".join(line.replace("cow", "\x1b[31mcow\x07") for line in LINES) + "\n")
    chainrule.train(home / "cows.txt", order=3, path=home / "cows")
    chainrule.train(home / "red.txt", order=6, tokenizer="characters", path=home / "red")
    return home


def expected(folder: Path, prompt: str, first_sample: int = 0) -> str:
    drawn = chainrule.load(folder / "cows").samples(
        prompt, stop=STOPS, seed=7, max_tokens=20, first_sample=first_sample
    )
    return drawn[0].text.strip()


def test_a_conversation_is_typed_taken_back_saved_and_left(folder: Path):
    first = expected(folder, "User: the old cow\nAssistant:")
    with Typist("chat", "cows", *DRAWN, folder=folder) as typist:
        greeting = typist.until(PROMPT)
        assert "cows: type a message and press Enter; /help lists the commands, Ctrl-D ends" in greeting
        assert "note: not trained on conversations; it continues a transcript" in greeting
        assert typist.answer("the old cow").startswith(first)
        assert typist.answer("/retry").startswith(expected(folder, "User: the old cow\nAssistant:", 1))
        assert typist.answer("") == ""
        assert "did you mean '/undo'?" in typist.answer("/udno")
        assert "took back: the old cow" in typist.answer("/undo")
        assert typist.answer("the old cow").startswith(first)
        assert "saved as conversation 1 of 1 in chats.jsonl" in typist.answer("/save chats.jsonl")
        assert "cleared" in typist.answer("/clear")
        assert "loaded conversation 1 of 1 in chats.jsonl: 2 messages" in typist.answer("/load chats.jsonl")
        shown = typist.answer("/history").split()
        assert shown[:5] == ["user", "the", "old", "cow", "assistant"] and shown[5:] == first.split()
        assert typist.leave(CTRL_D) == 0
    (saved,) = map(json.loads, (folder / "chats.jsonl").read_text().splitlines())
    assert [each["content"].strip() for each in saved["messages"]] == ["the old cow", first]


def test_ctrl_c_stops_the_answer_and_not_the_chat(folder: Path):
    with Typist("chat", "cows", "--save", "stopped.jsonl", folder=folder) as typist:
        typist.until(PROMPT)
        typist.until("(Ctrl-D or /exit ends the chat)", CTRL_C)
        typist.until(PROMPT)
        typist.answer(ENDLESS)
        typist.type("the old cow\n")
        typist.until("eats")
        typist.type(CTRL_C)
        assert "(stopped)" in typist.until(PROMPT)
        assert typist.answer("/history").endswith("(stopped)")
        assert "max_tokens=3" not in typist.answer("/set max_tokens=3 min_tokens=0")
        typist.answer("on day")
        assert typist.leave("/exit\n") == 0
    (saved,) = map(json.loads, (folder / "stopped.jsonl").read_text().splitlines())
    assert [each["role"] for each in saved["messages"]] == ["user", "assistant"] * 2
    assert saved["messages"][1]["weight"] == 0 and "eats" in saved["messages"][1]["content"]


def test_what_a_model_prints_does_not_steer_the_terminal(folder: Path):
    with Typist("chat", "red", *DRAWN, "--greedy", folder=folder) as typist:
        typist.until(PROMPT)
        typist.type("/set min_tokens=100 max_tokens=100\nthe old\n")
        typist.until("the old")
        seen = typist.until("(cut off")
        assert "\\x1b[31mcow\\x07" in seen and "\x1b[31m" not in seen and "\x07" not in seen


def test_a_question_is_edited_in_place_and_may_have_several_lines(folder: Path):
    pytest.importorskip("readline")
    with Typist("chat", "cows", *DRAWN, folder=folder) as typist:
        typist.until(PROMPT)
        typist.answer("the old")
        typist.type("/edit\n")
        typist.until("the old")  # which is there to be changed
        typist.type(" cow\n")
        assert expected(folder, "User: the old cow\nAssistant:") in " ".join(typist.until(PROMPT).split())
        typist.answer("\x1b[200~on day 3\nthe cow\x1b[201~")  # as a terminal hands over what is pasted
        typist.type('"""on day\n')
        typist.until("... ")
        typist.type('the red cow"""\n')
        typist.until(PROMPT)
        typist.type("/save lines.jsonl\n")
        typist.until("saved")
        typist.until(PROMPT)
        assert typist.leave() == 0
    (saved,) = map(json.loads, (folder / "lines.jsonl").read_text().splitlines())
    assert [each["content"] for each in saved["messages"][::2]] == [
        "the old cow",
        "on day 3\nthe cow",
        "on day\nthe red cow",
    ]


def test_json_is_for_pipes(folder: Path):
    with Typist("chat", "cows", "--json", folder=folder) as typist:
        assert typist.leave("") == 2


def test_a_conversation_goes_on_from_a_file_and_an_empty_answer_is_told(folder: Path):
    (folder / "before.jsonl").write_text('{"messages": [{"role": "user", "content": "the old cow"}]}\n')
    prompt = "User: the old cow\nAssistant:"
    greedy = chainrule.load(folder / "cows").samples(prompt, temperature=0.0, max_tokens=20)[0].text
    arguments = ("--greedy", "--load", "before.jsonl", "--stop", greedy.lstrip(" ")[0])
    with Typist("chat", "cows", *arguments, folder=folder) as typist:
        assert "(the last question has no answer yet; /retry asks it)" in typist.until(PROMPT)
        assert "(the answer is empty; /retry draws another)" in typist.answer("/retry")
        assert typist.answer("/history").split() == ["user", "the", "old", "cow", "assistant"]
        assert typist.leave() == 0
