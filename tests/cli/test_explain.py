"""`chainrule explain`: what is printed, what is written, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.cows import LINES

Result = tuple[int, str, str]
Command = Callable[..., Result]


@pytest.fixture
def run(chainrule: Command, cows: Path) -> str:
    assert chainrule("train", cows, "--order", 3)[0] == 0
    return "runs/cows"


def test_explain_tells_the_distribution_the_ladder_and_the_lines(chainrule: Command, run: str):
    code, out, err = chainrule("explain", run, "the red cow eats", "--token", "hay", "--top-k", 1)
    assert code == 0
    for words in (
        "the distribution of the next token",
        "which tokens mattered for ' hay'",
        "the back-off ladder",
        "cows.txt:",
    ):
        assert words in out
    assert "for a page" in err


def test_explain_as_json_adds_up(chainrule: Command, run: str):
    code, out, _ = chainrule("explain", run, "the red cow eats", "--json")
    found = json.loads(out)
    assert code == 0
    assert sum(rung["contribution"] for rung in found["inside"]["rungs"]) == pytest.approx(
        found["probability"], abs=1e-6
    )
    assert found["evidence"]["count"] == sum("cow eats" in line for line in LINES) - _kept_aside(run, "cow eats")


def test_explain_a_transformer_after_a_word_or_two(chainrule: Command, cows: Path):
    """Fewer tokens than its longest hashed n-gram has."""
    settings = ("--tokenizer", "words", "--set", "ngram_order=4", "--set", "steps=2", "--set", "batch_size=2")
    assert chainrule("train", cows, "--model", "transformer", "--size", "tiny", *settings)[0] == 0
    for text in ("", "the", "the red", "the red cow"):
        code, out, _ = chainrule("explain", "runs/cows", text, "--json")
        found = json.loads(out)
        assert code == 0
        assert [word.strip() for word in found["tokens"]] == ["<eos>", *text.split()]
        assert len(found["importance"]["gradient"]) == len(text.split())  # without <eos>


def _kept_aside(run: str, words: str) -> int:
    from chainrule.runs.folder import Run

    made = Run(run)
    return sum(
        d.text(i).count(words) for d in made.shards("validation").documents(made.tokenizer) for i in range(len(d))
    )


def test_faces_is_still_understood_and_no_longer_shown(chainrule: Command, run: str):
    top, faces = (json.loads(chainrule("explain", run, "the", flag, 3, "--json")[1]) for flag in ("--top", "--faces"))
    assert top == faces
    assert len(top["distribution"]["top"]) == 3
    helped = chainrule("explain", "--help")[1]
    assert "--top" in helped and "--faces" not in helped


def test_explain_writes_a_page(chainrule: Command, run: str, tmp_path: Path):
    code, _, err = chainrule("explain", run, "the", "--html", tmp_path / "page.html")
    assert code == 0
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert "page.html" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("explain", "runs/none", "text"), "run 'runs/none' not found"),
        (("explain", "runs/cows", "the", "--top", "0"), "--top must be from 1 to 1000, got 0"),
        (("explain", "runs/cows", "the", "--token", ""), "is not a token"),
        (("explain", "runs/cows", "the", "--temperature", "-1"), "temperature"),
        (("explain", "runs/cows", "the", "--html", "absent/page.html"), "cannot write 'absent/page.html'"),
    ],
)
def test_mistakes_get_one_sentence(chainrule: Command, run: str, arguments: tuple[str, ...], words: str):
    code, out, err = chainrule(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_a_page_replaces_no_file_unless_asked_to(chainrule: Command, run: str):
    Path("thesis.html").write_text("years of work")
    code, _, err = chainrule("explain", run, "the red cow", "--html", "thesis.html")
    assert code == 2
    assert err == "chainrule: 'thesis.html' exists already; choose another name, or pass --overwrite\n"
    assert Path("thesis.html").read_text() == "years of work"
    assert chainrule("explain", run, "the red cow", "--html", "thesis.html", "--overwrite")[0] == 0
    assert "the red cow" in Path("thesis.html").read_text()
