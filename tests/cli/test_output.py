import json

import pytest

from chainrule.cli.output import number, plural, print_json, show_text, size, visible


def test_control_characters_are_shown_and_never_obeyed_on_a_terminal(capsys, monkeypatch):
    assert visible("a\x1b[31mb\x07\n\tc\x9b") == "a\\x1b[31mb\\x07\n\tc\\x9b"
    show_text("\x1b[31m")
    assert capsys.readouterr().out == "\x1b[31m"  # a file gets what was sampled
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show_text("\x1b[31m")
    assert capsys.readouterr().out == "\\x1b[31m"


def test_json_has_null_where_a_figure_is_infinite(capsys):
    print_json({"a": float("inf"), "b": [1.5, float("nan")], "c": ("é",)})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [1.5, None], "c": ["é"]}


@pytest.mark.parametrize(
    ("count", "text"), [(999, "999 bytes"), (1_234_567, "1.2 MB"), (5e12, "5000.0 GB"), (12_000, "12.0 kB")]
)
def test_sizes_are_short(count, text):
    assert size(count) == text


def test_numbers_and_plurals():
    assert number(1234.567) == "1,234.57"
    assert number(float("inf")) == number(None) == "infinite"
    assert plural(1, "document") == "1 document"
    assert plural(2000, "document") == "2,000 documents"
