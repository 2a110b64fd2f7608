"""The flags that every command has: settings from a file, and quiet."""

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from chainrule.errors import UserError, did_you_mean

PANEL = "Every command"
REST = "chainrule.settings"  # of the context: what a file names that is not a flag
TAKES_SETTINGS = "set_"  # the parameter of a command that takes settings which are not flags


def parameters(takes_settings: bool) -> list[inspect.Parameter]:
    """The parameters that these flags are, as Typer reads them; `takes_settings`: the command trains a model."""
    also = "; or the config.json of a run, to train with the same settings" if takes_settings else ""
    config = typer.Option(
        "--config",
        metavar="FILE",
        is_eager=True,
        callback=_read_config,
        rich_help_panel=PANEL,
        help=f"Read settings from a JSON file, by the names of the flags (flags override it){also}.",
    )
    quiet = typer.Option("--quiet", "-q", rich_help_panel=PANEL, help="Print only results and errors.")
    return [
        _parameter("config", Annotated[Path | None, config], None),
        _parameter("quiet", Annotated[bool, quiet], False),
    ]


def take(values: dict[str, object]) -> bool:
    """Take these flags out of the values of all; returns whether to be quiet."""
    values.pop("config")
    return bool(values.pop("quiet"))


def settings_from_file(context: typer.Context) -> dict[str, object]:
    """What --config named that is not a flag of the command."""
    found: dict[str, object] = context.meta.get(REST, {})
    return found


def _parameter(name: str, annotation: Any, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _read_config(context: typer.Context, file: Path | None) -> Path | None:
    """Values in the file become the defaults of the flags of the same names."""
    if file is None or context.resilient_parsing:
        return file
    flags = {
        name.lstrip("-").replace("-", "_"): each
        for each in context.command.params
        for name in each.opts
        if name.startswith("--")
    }
    takes_settings = any(each.name == TAKES_SETTINGS for each in flags.values())
    values = _read(file, takes_settings)
    rest = {name: value for name, value in values.items() if name not in flags}
    if rest and not takes_settings:
        wrong = next(iter(rest))
        raise UserError(
            f"'{file}' sets '{wrong}', which is not a flag of chainrule {context.info_name}{did_you_mean(wrong, flags)}"
        )
    context.meta[REST] = rest
    context.default_map = {
        str(flags[name].name): _as_default(value, flags[name]) for name, value in values.items() if name in flags
    }
    return file


def _read(file: Path, takes_settings: bool) -> dict[str, object]:
    if takes_settings:
        from chainrule.api.settings_file import read_settings

        return read_settings(file)
    from chainrule.config import read_file

    return read_file(file)


def _as_default(value: object, flag: Any) -> object:
    """A list as the text that a flag which is given once would have; all else as it is."""
    if isinstance(value, list) and not flag.multiple:
        return " ".join(map(str, value)) or None
    return value
