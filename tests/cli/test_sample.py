"""A prompt is given as an argument, as a flag, in a file or by standard input, and the text is the same."""

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Result = tuple[int, str, str]
DRAWN = ("--seed", "1", "--max-tokens", "6")


@pytest.fixture
def run(chainrule: Callable[..., Result], cows: Path) -> str:
    assert chainrule("train", cows, "--order", 3)[0] == 0
    return "runs/cows"


def test_the_prompt_is_an_argument_a_flag_a_file_or_standard_input(chainrule, run, monkeypatch):
    Path("prompt.txt").write_text("the old cow\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("the old cow"))
    ways = [("the old cow",), ("--prompt", "the old cow"), ("--prompt-file", "prompt.txt"), ("-",)]
    texts = [chainrule("sample", run, *way, *DRAWN)[1] for way in ways]
    assert texts[0].startswith("the old cow eats ")
    assert len(set(texts)) == 1


def test_two_prompts_are_refused(chainrule, run):
    code, out, err = chainrule("sample", run, "on day", "--prompt", "the cow")
    assert (code, out) == (2, "")
    assert err == "chainrule: the prompt was given twice, as an argument and --prompt; leave one out\n"


def test_a_prompt_file_that_cannot_be_read_is_refused(chainrule, run):
    Path("latin.txt").write_bytes(b"caf\xe9")
    assert chainrule("sample", run, "--prompt-file", "absent.txt")[::2] == (
        2, "chainrule: cannot read 'absent.txt': No such file or directory\n",
    )  # fmt: skip
    assert "'latin.txt' is not UTF-8 (byte 3)" in chainrule("sample", run, "--prompt-file", "latin.txt")[2]


@pytest.mark.parametrize("arguments", [("sample", "runs/cows", "--prompt", "-"), ("explain", "runs/cows", "-")])
def test_a_prompt_from_a_closed_standard_input_is_refused(run, arguments):
    line = f'exec "{sys.executable}" -m chainrule {" ".join(arguments)} <&-'
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "chainrule: '-' stands for standard input, which is closed; give the text itself\n"
