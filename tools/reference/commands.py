"""Every command with its arguments and options, from Typer's own tree."""

from typing import Any

import typer

from chainrule.cli.main import app
from tools.reference.markdown import code, paragraphs, table

HELP = "--help"


def page() -> str:
    group: Any = typer.main.get_command(app)
    names = [name for name in group.list_commands(None) if not group.commands[name].hidden]
    overview = table(
        ["command", "what it does"],
        [[f"[`chainrule {name}`](#chainrule-{name})", _first_line(group.commands[name])] for name in names],
    )
    return paragraphs(
        "# Commands",
        "`chainrule COMMAND --help` shows the same in the terminal. Exit codes: 0 done, 2 a mistake in what was asked, "
        "130 interrupted. An error is one line on standard error and, with `--json`, an object on standard output: "
        '`{"error": {"message": "...", "exit_code": 2}}`. `chainrule --install-completion` makes the shell complete '
        "commands, flags, models and runs.",
        overview,
        *(_command(name, group.commands[name]) for name in names),
    )


def _first_line(command: Any) -> str:
    return str(command.help or "").strip().split("\n")[0]


def _command(name: str, command: Any) -> str:
    shown = [each for each in command.params if not getattr(each, "hidden", False) and HELP not in each.opts]
    arguments = [each for each in shown if not each.opts[0].startswith("-")]
    usage = " ".join(["chainrule", name, "[OPTIONS]", *(_argument_name(each) for each in arguments)])
    panels: dict[str, list[Any]] = {}
    for each in shown:
        if each not in arguments:
            panels.setdefault(each.rich_help_panel or "Options", []).append(each)
    tables = [table(["argument", "meaning"], [[code(_argument_name(each)), each.help or ""] for each in arguments])]
    for panel, options in panels.items():
        title = f"**{panel}**" if len(panels) > 1 else ""
        tables.append(paragraphs(title, table(["option", "default", "meaning"], [_option(each) for each in options])))
    described = " ".join(str(command.help or "").split())
    return paragraphs(f"## chainrule {name}", described, f"```\n{usage}\n```", *(tables if arguments else tables[1:]))


def _argument_name(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _option(option: Any) -> list[str]:
    names = ", ".join([*option.opts, *option.secondary_opts])
    value = "" if option.is_flag or option.count else f" {option.metavar or _value_name(option)}"
    is_said = option.default not in (None, False, "", (), []) and not callable(option.default)
    return [code(names + value), code(option.default) if is_said else "", option.help or ""]


def _value_name(option: Any) -> str:
    described = getattr(option, "type_descriptor", None)
    kind = described.annotation if described is not None else getattr(option, "type", "")
    name = getattr(kind, "__name__", getattr(kind, "name", "text"))
    return {"str": "TEXT", "float": "NUMBER", "int": "N", "list": "TEXT"}.get(name, name.upper())
