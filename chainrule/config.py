"""Settings are frozen dataclasses. Here they come from JSON, from files and from flags, checked field by field.

Later layers win: defaults < size preset < --config file < flags < --set name=value.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from chainrule.errors import UserError, did_you_mean

C = TypeVar("C")


def fields(cls: type) -> dict[str, Any]:
    """{name: type} of a settings class."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def override(settings: C, changes: Mapping[str, Any], where: str, from_text: bool = True) -> C:
    """A copy with these fields changed; unknown names and wrong types are errors that say where they came from.

    `from_text`: a value may be the text of a flag, '3' for 3.
    """
    known = fields(type(settings))
    checked = {}
    for name, value in changes.items():
        if name not in known:
            raise UserError(
                f"unknown setting '{name}' in {where}{did_you_mean(name, known)} (there are: {', '.join(known)})"
            )
        checked[name] = _check(name, known[name], value, where, from_text)
    return dataclasses.replace(settings, **checked)  # type: ignore[type-var]


def _check(name: str, kind: Any, value: Any, where: str, from_text: bool) -> Any:
    from pydantic import TypeAdapter, ValidationError

    try:
        if from_text and isinstance(value, str) and kind is not str:
            return TypeAdapter(kind).validate_python(_parse(value))
        return TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
    except (ValidationError, TypeError):
        label = getattr(kind, "__name__", str(kind)) if "[" not in str(kind) else str(kind)
        raise UserError(f"{name} in {where} must be of type {label}, got {value!r}") from None


def _parse(text: str) -> Any:
    """'3' -> 3, 'true' -> True, '0 0 1' or '0,0,1' -> [0, 0, 1]: what a flag's text stands for."""
    parts = text.replace(",", " ").split()
    if len(parts) > 1:
        return [_parse(part) for part in parts]
    try:
        return json.loads(text)
    except ValueError:
        return text


def parse_assignments(assignments: Sequence[str]) -> dict[str, str]:
    """['order=3'] -> {'order': '3'}."""
    parsed = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise UserError(f"--set takes name=value, got '{assignment}'")
        parsed[name.strip().replace("-", "_")] = value.strip()
    return parsed


def read_file(path: Path) -> dict[str, Any]:
    """A JSON object of settings."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the settings in '{path}': {error}") from None
    except json.JSONDecodeError as error:
        raise UserError(f"'{path}' is not valid JSON (line {error.lineno}: {error.msg})") from None
    if not isinstance(values, dict):
        raise UserError(f"'{path}' must hold one JSON object of settings, found {type(values).__name__}")
    return values


def to_json(settings: Any) -> dict[str, Any]:
    return dataclasses.asdict(settings)


def from_json(cls: type[C], values: Mapping[str, Any], where: str) -> C:
    """Settings as they were stored: every value of the type it has."""
    return override(cls(), values, where, from_text=False)


def without_infinities(value: Any) -> Any:
    """The same nest of dicts, lists and tuples as JSON can hold it: null in place of NaN and infinities, which JSON
    does not have, names as strings and tuples as lists."""
    if isinstance(value, dict):
        return {str(name): without_infinities(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_infinities(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value
