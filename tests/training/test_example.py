"""The example that is shown before training: what is asked for is in colour, or in brackets where there is none."""

import io

import pytest
from rich.console import Console

from chainrule.text.chat import Message
from chainrule.text.rendering import render, shown_parts
from chainrule.text.role_tokens import with_roles
from chainrule.training.example import in_brackets, show_example
from tests.text.samples import CLOSED, LINES, OPEN, train

TALK = [Message("user", "[the] cat\x1b sat?"), Message("assistant", "on the mat"), Message("user", "the world")]
SHOWN = "<|im_start|>user\n[the] cat\\x1b sat?<|im_end|>\n<|im_start|>assistant\n[on the mat<|im_end|>]"


def parts_of(kind: str) -> list[tuple[str, bool]]:
    tokenizer = with_roles(train(kind, LINES))
    [row] = render(tokenizer, TALK)
    return shown_parts(tokenizer, row.ids, row.is_asked)


@pytest.mark.parametrize("kind", OPEN)
def test_without_colours_there_are_brackets(kind: str):
    file = io.StringIO()
    show_example(parts_of(kind), Console(file=file, width=20))
    assert file.getvalue() == f"an example, with what is learned in brackets:\n{SHOWN}\n"


def test_with_colours_there_are_none():
    file = io.StringIO()
    show_example(parts_of("bpe"), Console(file=file, width=200, force_terminal=True, color_system="standard"))
    printed = file.getvalue()
    assert "\x1b[1;32mon the mat<|im_end|>\x1b[0m" in printed  # bold green
    assert "[on the mat" not in printed and "\x1b[2m<|im_start|>user" in printed and "[the] cat\\x1b sat?" in printed


def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    file = io.StringIO()
    show_example(parts_of("bpe"), Console(file=file, width=200, force_terminal=True))
    assert "[on the mat<|im_end|>]" in file.getvalue()


@pytest.mark.parametrize("kind", CLOSED)
def test_of_a_closed_vocabulary_it_is_what_its_tokens_say(kind: str):
    assert in_brackets(parts_of(kind)).endswith("<|im_end|>]")
