import json
from dataclasses import dataclass

import pytest

from chainrule.config import from_json, override, parse_assignments, read_file, to_json
from chainrule.errors import UserError


@dataclass(frozen=True)
class Settings:
    order: int = 5
    rate: float = 0.1
    name: str = "plain"
    prune: tuple[int, ...] = ()
    limit: int | None = None
    is_tied: bool = False


def test_settings_survive_json():
    settings = Settings(3, 0.5, "x", (0, 1), 7, True)
    assert from_json(Settings, json.loads(json.dumps(to_json(settings))), "here") == settings


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("order", "3", 3),
        ("rate", "1", 1.0),
        ("rate", "1e-3", 0.001),
        ("name", "3", "3"),
        ("prune", "0 0 1", (0, 0, 1)),
        ("prune", "0,1", (0, 1)),
        ("prune", "0", (0,)),
        ("limit", "null", None),
        ("limit", "9", 9),
        ("is_tied", "true", True),
    ],
)
def test_flags_are_read_by_the_type_of_their_field(name, text, value):
    assert getattr(override(Settings(), {name: text}, "flags"), name) == value


def test_an_unknown_name_is_an_error_with_a_suggestion():
    with pytest.raises(UserError, match="unknown setting 'ordre' in the flags; did you mean 'order'"):
        override(Settings(), {"ordre": 3}, "the flags")


@pytest.mark.parametrize(
    ("name", "value"), [("order", "three"), ("order", 2.5), ("order", True), ("is_tied", 1), ("name", 3)]
)
def test_a_wrong_type_is_an_error_that_names_field_and_value(name, value):
    with pytest.raises(UserError, match=f"{name} in a file must be of type"):
        override(Settings(), {name: value}, "a file")


def test_assignments_take_dashes_for_underscores():
    assert parse_assignments(["is-tied=true", "name=a=b"]) == {"is_tied": "true", "name": "a=b"}
    with pytest.raises(UserError, match="a setting is given as name=value, got 'order'"):
        parse_assignments(["order"])


@pytest.mark.parametrize(
    ("text", "sentence"), [("{", "not valid JSON"), ("[1]", "one JSON object"), ("", "not valid JSON")]
)
def test_a_bad_settings_file_is_refused(tmp_path, text, sentence):
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(UserError, match=sentence):
        read_file(tmp_path / "s.json")
    with pytest.raises(UserError, match="cannot read"):
        read_file(tmp_path / "absent.json")
