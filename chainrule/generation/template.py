"""Prompt templates: a small TOML file with fields to fill in, one of those in `templates` or the user's own.

    about = "Correct the grammar of a sentence."
    text = '''
    Poor English: I eated an apple.
    Good English: I ate an apple.

    Poor English: {sentence}
    Good English:'''

    [fields]
    sentence = "the sentence to correct"

    [sampling]
    temperature = 0.0
    stop = ["\\n"]

Declared names in braces are replaced by the given texts, all in one pass; any other brace is plain text.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chainrule.config import fields as settings_of
from chainrule.config import override
from chainrule.errors import UserError, did_you_mean
from chainrule.generation.settings import Sampling

FOLDER = Path(__file__).parent / "templates"
PARTS = {"about": str, "text": str, "fields": dict, "sampling": dict}


@dataclass(frozen=True)
class Template:
    """A prompt with fields, and the settings that its answers are drawn with."""

    name: str
    about: str
    text: str
    fields: dict[str, str]  # name -> description
    sampling: Sampling  # how to draw answers, and where they stop

    def fill(self, values: Mapping[str, str]) -> str:
        """The prompt with a text for every field; unknown and missing fields are errors."""
        for name in values:
            if name not in self.fields:
                raise UserError(
                    f"'{self.name}' has no field '{name}'{did_you_mean(name, self.fields)} ({self._list()})"
                )
        missing = [name for name in self.fields if not values.get(name, "").strip()]
        if missing:
            raise UserError(f"'{self.name}' lacks {' and '.join(missing)} ({self._list()})")
        return _places(self.fields).sub(lambda place: values[place[1]].strip(), self.text)

    def _list(self) -> str:
        return f"its fields are: {', '.join(self.fields)}"


def find_template(name: str) -> Template:
    """A built-in template by its name, or a template file by its path."""
    path = FOLDER / f"{name}.toml"
    if name in names():
        return _read(path, name)
    if not Path(name).is_file():
        known = ", ".join(names())
        raise UserError(
            f"there is no template '{name}'{did_you_mean(name, names())} (there are: {known}, or name a .toml file)"
        )
    return _read(Path(name), name)


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def _read(path: Path, name: str) -> Template:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"'{path}' is not valid TOML: {error}") from None
    _check(found, path)
    fields, text = found["fields"], found["text"]
    unused = [field for field in fields if f"{{{field}}}" not in text]
    if unused:
        raise UserError(f"'{path}' declares the field '{unused[0]}', but its text has no {{{unused[0]}}}")
    sampling = override(Sampling(), found.get("sampling", {}), f"'{path}'", from_text=False)
    return Template(name, found.get("about", ""), text, fields, sampling)


def _check(found: dict[str, Any], path: Path) -> None:
    for part in found:
        if part not in PARTS:
            raise UserError(f"'{path}' has an unknown part '{part}'{did_you_mean(part, PARTS)}")
    for part, kind in PARTS.items():
        if part in ("text", "fields") and not found.get(part):
            raise UserError(f"'{path}' is no template: it has no {part}")
        if not isinstance(found.get(part, kind()), kind):
            raise UserError(f"{part} in '{path}' must be {'text' if kind is str else 'a table'}, got {found[part]!r}")
    for field, about in found["fields"].items():
        if not re.fullmatch("[a-z][a-z0-9_]*", field) or field in settings_of(Sampling):
            raise UserError(f"'{field}' in '{path}' cannot be a field; use small letters, and no name of a setting")
        if not isinstance(about, str):
            raise UserError(f"the field '{field}' in '{path}' must say in words what it is, got {about!r}")


def _places(fields: Mapping[str, str]) -> re.Pattern[str]:
    return re.compile(r"\{(" + "|".join(map(re.escape, fields)) + r")\}")
