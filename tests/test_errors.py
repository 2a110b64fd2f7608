"""The one error people see: one line that no name from a file can break, recolour or turn around."""

import pickle

import pytest

from chainrule.errors import LONGEST, Argument, Diverged, UserError


@pytest.mark.parametrize("kind", [UserError, Diverged])
@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("'a\nb\r\n\tc' is none", "'a b \tc' is none"),
        ("'\x1b[2J\x07' is none", r"'\x1b[2J\x07' is none"),
        ("'\x9b31m\x7f' is none", r"'\x9b31m\x7f' is none"),
        ("'\u202egnp.exe\u2066' is none", r"'\u202egnp.exe\u2066' is none"),
        ("'\u2028\x85' is none", "' ' is none"),
        ("'\udcff' is none", r"'\udcff' is none"),
        (r"'naïve 日本 👩‍🚀 \n' is none", r"'naïve 日本 👩‍🚀 \n' is none"),
    ],
)
def test_a_message_is_one_line_without_control_characters(kind: type[UserError], said: str, shown: str):
    error = kind(said)
    assert str(error) == shown
    assert str(pickle.loads(pickle.dumps(error))) == shown


def test_a_message_of_a_million_characters_is_cut():
    assert str(UserError("a" * 1_000_000)) == "a" * LONGEST + " ..."


def test_what_can_be_done_is_worded_for_each_caller():
    error = UserError("the prompt has 9 tokens but this model reads 8; shorten it", remedy=Argument("truncate"))
    said = "the prompt has 9 tokens but this model reads 8; shorten it"
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert str(each) == f"{said} or pass truncate=True"
        assert each.for_command_line == f"{said} or pass --truncate"
        assert each.sentence == said
    assert Argument("max_tokens", 5).flag == "--max-tokens 5" and str(Argument("max_tokens", 5)) == "max_tokens=5"


def test_without_a_remedy_every_caller_hears_the_same():
    error = UserError("there is nothing here; name a file")
    assert str(error) == error.for_command_line == error.sentence == "there is nothing here; name a file"
