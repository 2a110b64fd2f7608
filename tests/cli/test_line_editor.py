"""A message is a line or, between quotes, several."""

from collections.abc import Callable

import pytest

from chainrule.cli.line_editor import read_message


def typed(*lines: str) -> Callable[[str], str]:
    left = list(lines)

    def read(prompt: str) -> str:
        assert prompt == (">>> " if len(left) == len(lines) else "... ")
        if not left:
            raise EOFError
        return left.pop(0)

    return read


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["  Who are you? "], ("Who are you?", False)),
        (["/undo"], ("/undo", False)),
        (['"""A poem', "  about the sea", "", 'in two lines"""'], ("A poem\n  about the sea\n\nin two lines", True)),
        (['"""', "/usr/bin", '"""'], ("/usr/bin", True)),
        (['"""one line"""'], ("one line", True)),
        (['"""pasted\n\nas one"""'], ("pasted\n\nas one", True)),
        ([""], ("", False)),
        (['""" """'], (" ", True)),
    ],
)  # fmt: skip
def test_a_message_is_a_line_or_what_stands_between_quotes(lines: list[str], message: tuple[str, bool]):
    assert read_message(typed(*lines), ">>> ", "... ") == message


def test_quotes_that_are_not_closed_end_with_the_input():
    with pytest.raises(EOFError):
        read_message(typed('"""Write a poem'), ">>> ", "... ")
