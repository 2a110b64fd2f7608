"""Settings are frozen dataclasses whose fields carry their own help; the command line makes its flags from them.

Values come from JSON, from files and from flags, and are checked field by field. Later layers win: defaults < size
preset < configuration file < flags < name=value assignments.
"""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_origin, get_type_hints

from chainrule.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

C = TypeVar("C", bound="DataclassInstance")
T = TypeVar("T")
Names = Callable[[], Iterable[str]]


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a field of a settings class says about itself."""

    about: str  # may contain {names}
    flags: tuple[str, ...] = ()  # of the command line; none: it is set by --set name=value
    metavar: str | None = None
    names: Names | None = None  # the values there are

    @property
    def help(self) -> str:
        """The help text, with the names filled in."""
        return self.about if self.names is None else self.about.replace("{names}", ", ".join(self.names()))


def setting(
    default: T,
    help: str,
    *,
    flag: bool | str | tuple[str, ...] = False,
    metavar: str | None = None,
    names: Names | None = None,
) -> T:
    """A field of a settings class with its default and its help, where {names} stands for what `names()` gives.

    `flag=True` also makes it a flag of the command line, called as the field; a text or a tuple names the flags.
    """
    flags = ("",) if flag is True else (flag,) if isinstance(flag, str) else flag or ()
    metadata = {"setting": Setting(help, flags, metavar, names)}
    return dataclasses.field(default=default, metadata=metadata)


def settings_of(cls: "type[DataclassInstance]") -> dict[str, Setting]:
    """{field name: what it says about itself} of a settings class, in order; fields without help are left out."""
    found = {}
    for field in dataclasses.fields(cls):
        own = field.metadata.get("setting")
        if isinstance(own, Setting):
            flags = tuple(flag or "--" + field.name.replace("_", "-") for flag in own.flags)
            found[field.name] = dataclasses.replace(own, flags=flags)
    return found


def fields(cls: "type[DataclassInstance]") -> dict[str, object]:
    """{name: type} of a settings class."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def override(settings: C, changes: Mapping[str, object], where: str, from_text: bool = True) -> C:
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
    return dataclasses.replace(settings, **checked)


def _check(name: str, kind: Any, value: object, where: str, from_text: bool) -> object:
    from pydantic import TypeAdapter, ValidationError

    try:
        if from_text and isinstance(value, str) and kind is not str:
            value = _parse(value)
            if get_origin(kind) is tuple and not isinstance(value, list):
                value = [value]  # '0.75' -> (0.75,)
            return TypeAdapter(kind).validate_python(value)
        return TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
    except (ValidationError, TypeError):
        label = getattr(kind, "__name__", str(kind)) if "[" not in str(kind) else str(kind)
        raise UserError(f"{name} in {where} must be of type {label}, got {value!r}") from None


def _parse(text: str) -> object:
    """'3' -> 3, 'true' -> True, '0 0 1' or '0,0,1' -> [0, 0, 1]: what a flag's text stands for."""
    parts = text.replace(",", " ").split()
    if len(parts) > 1:
        return [_parse(part) for part in parts]
    try:
        parsed: object = json.loads(text)
    except ValueError:
        return text
    return parsed


def parse_assignments(assignments: Sequence[str]) -> dict[str, str]:
    """['order=3'] -> {'order': '3'}."""
    parsed = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise UserError(f"a setting is given as name=value, got '{assignment}'")
        parsed[name.strip().replace("-", "_")] = value.strip()
    return parsed


def read_file(path: Path) -> dict[str, object]:
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
    """The settings as nested dictionaries."""
    return dataclasses.asdict(settings)


def from_json(cls: type[C], values: Mapping[str, object], where: str) -> C:
    """Settings from a stored JSON object; every value must have the type of its field."""
    return override(cls(), values, where, from_text=False)


def without_infinities(value: object) -> Any:
    """A nest of dicts, lists and tuples in the form that JSON can hold: None in place of NaN and infinities, keys as
    strings, tuples as lists."""
    if isinstance(value, dict):
        return {str(name): without_infinities(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_infinities(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value
