"""Flags from settings: a parameter of a command that is a settings dataclass becomes one flag for each of its fields.

    def command(reading: Annotated[Reading, Flags()], learning: Annotated[Given, Flags(Recipe)]) -> None: ...

`reading` arrives as a Reading, made of --unit, --field and --encoding; `learning` arrives as a dictionary of the fields
that were given on the command line. Names, defaults and help are those of the fields (see `config.setting`). Every
command also gets the flags of `common`.
"""

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import MISSING, dataclass
from dataclasses import fields as dataclass_fields
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args, get_origin

import typer
from typer.models import OptionInfo

from chainrule.cli import common
from chainrule.config import fields, settings_of
from chainrule.progress import quiet

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Command = Callable[..., None]
Given: TypeAlias = dict[str, object]  # the settings that were named on the command line, by their fields


@dataclass(frozen=True)
class Flags:
    """Marks a parameter that stands for the flags of a settings class."""

    of: "type[DataclassInstance] | None" = None  # default: the annotation itself
    only: tuple[str, ...] = ()  # these fields; default: all that are flags
    panel: str | None = None  # the heading in the help
    as_text: tuple[str, ...] = ()  # fields whose text the command reads itself


def option(
    cls: "type[DataclassInstance]", name: str, *flags: str, help: str | None = None, panel: str | None = None
) -> OptionInfo:
    """The flag of one field; other `flags` or another `help` replace the field's own."""
    own = settings_of(cls)[name]
    names = flags or own.flags
    found: OptionInfo = typer.Option(*names, help=help or own.help, metavar=own.metavar, rich_help_panel=panel)
    return found


def expand(command: Command) -> Command:
    """The command as Typer reads it: every group of settings replaced by its flags."""
    groups: dict[str, _Group] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        group = _find_group(parameter)
        if group is None:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        else:
            groups[parameter.name] = group
            parameters += group.parameters()
    parameters += common.parameters(any(each.name == common.TAKES_SETTINGS for each in parameters))

    @wraps(command)
    def call(**values: object) -> None:
        is_quiet = common.take(values)
        taken = {name: group.take(values) for name, group in groups.items()}
        with quiet() if is_quiet else nullcontext():
            command(**values, **taken)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def _find_group(parameter: inspect.Parameter) -> "_Group | None":
    if get_origin(parameter.annotation) is not Annotated:
        return None
    kind, *marks = get_args(parameter.annotation)
    for mark in marks:
        if isinstance(mark, Flags):
            return _Group(mark.of or kind, mark, is_whole=mark.of is None)
    return None


@dataclass(frozen=True)
class _Group:
    """The flags that one parameter stands for."""

    cls: "type[DataclassInstance]"
    mark: Flags
    is_whole: bool  # the command gets an instance, not a dictionary of what was given

    @property
    def names(self) -> list[str]:
        flagged = [name for name, own in settings_of(self.cls).items() if own.flags]
        assert set(self.mark.only) <= set(flagged), (self.cls, self.mark.only)
        return list(self.mark.only) or flagged

    def parameters(self) -> list[inspect.Parameter]:
        kinds = fields(self.cls)
        defaults = {each.name: each.default for each in dataclass_fields(self.cls)}
        return [self._parameter(name, kinds[name], defaults[name]) for name in self.names]

    def _parameter(self, name: str, kind: Any, default: object) -> inspect.Parameter:
        assert default is not MISSING, f"{self.cls.__name__}.{name} needs a default to be a flag"
        info = option(self.cls, name, panel=self.mark.panel)
        if kind is bool:
            default = False
        elif kind == tuple[str, ...]:
            kind, default = list[str] | None, None
        elif get_origin(kind) is tuple or name in self.mark.as_text:
            kind, default = str | None, None
        elif not self.is_whole:
            kind, default = kind | None, None
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
        )

    def take(self, values: dict[str, object]) -> object:
        """What the command gets, out of the values of all flags, which lose it."""
        given: Given = {}
        for name in self.names:
            value = values.pop(name)
            if value is None or (value is False and not self.is_whole) or value == []:
                continue
            given[name] = tuple(value) if isinstance(value, list) else value
        return self.cls(**given) if self.is_whole else given
