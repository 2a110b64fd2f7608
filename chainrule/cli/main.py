"""`chainrule`: puts the commands together and turns errors into one line and an exit code."""

import importlib
import os
import pkgutil
import sys
import time
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
import typer.core

from chainrule.cli.flags import expand
from chainrule.errors import Stopped, UserError
from chainrule.version import __version__

ORDER = (
    "train", "compare", "sample", "chat", "prompt", "translate", "tag", "evaluate", "explain", "mix", "serve", "doctor",
    "list", "show", "plan", "graph", "export", "import", "merge", "forget",
)  # fmt: skip
NOT_COMMANDS = (
    "chat_commands", "chat_terminal", "common", "completion", "flags", "line_editor", "main", "options", "output",
    "standard_input", "word_wrap",
)  # fmt: skip
LONGEST_START = 30.0  # seconds; what was loaded later than that is part of another program
_LOADED_AT = time.time()
P = TypeVar("P")


def started_at() -> float:
    """When the command began, so that a time budget counts all of it, the start of Python included."""
    try:
        ticks = float(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])  # since the system started
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        began = time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):  # systems without /proc
        return _LOADED_AT
    return began if 0 <= _LOADED_AT - began < LONGEST_START else _LOADED_AT


class CleanHelp(typer.core.TyperCommand):
    """A command whose help shows no type beside flags that take no value."""

    def get_params(self, ctx: Any) -> list[Any]:  # types of Typer's own
        return without_types(super().get_params(ctx))


class CommandsInOrder(typer.core.TyperGroup):
    """The commands in the order of ORDER, not of their names."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=lambda name: (*ORDER, name).index(name))

    def get_params(self, ctx: Any) -> list[Any]:  # types of Typer's own
        return without_types(super().get_params(ctx))


def without_types(parameters: list[P]) -> list[P]:
    """The same parameters; those that are on or off lose the <bool> beside them."""
    for each in parameters:
        if isinstance(each, typer.core.TyperOption) and each.is_flag and each.metavar is None:
            each.metavar = ""
    return parameters


app = typer.Typer(
    cls=CommandsInOrder,
    help="Train, compare, explain, sample from, serve and export language models of your own text.",
    epilog="Start with: chainrule train poems.txt   and then: chainrule sample runs/poems 'The sea'",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"chainrule {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def _add_commands() -> None:
    """Every module here with a `command` function is a command of that name ('import_' is import)."""
    for module in pkgutil.iter_modules(importlib.import_module("chainrule.cli").__path__):
        if module.name not in NOT_COMMANDS:
            command = importlib.import_module(f"chainrule.cli.{module.name}").command
            app.command(module.name.rstrip("_"), cls=CleanHelp)(expand(command))


_add_commands()


def main() -> None:
    try:
        code = app(prog_name="chainrule", standalone_mode=False)
    except UserError as error:
        code = _complain(error.for_command_line, 2)
    except Stopped as stop:
        code = _complain(str(stop), stop.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        code = _complain("interrupted; no unfinished files are left behind", 130)
    except BrokenPipeError:  # the reader has gone, as in `chainrule sample | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        if not hasattr(error, "exit_code") or not hasattr(error, "show") or not hasattr(error, "format_message"):
            raise
        error.show()  # a wrong flag: the parser's own message
        code = error.exit_code
        if _wants_json():
            _print_error(error.format_message(), code)
    sys.exit(code or 0)


def _complain(sentence: str, code: int) -> int:
    """One line for people on standard error and, with --json, an object for programs on standard output."""
    sentence = " ".join(sentence.split())
    print(f"chainrule: {sentence}", file=sys.stderr)
    if _wants_json():
        _print_error(sentence, code)
    return code


def _wants_json() -> bool:
    """Whether --json was given, even where the command line could not be read to its end."""
    flags = sys.argv[1:]
    return "--json" in (flags[: flags.index("--")] if "--" in flags else flags)


def _print_error(sentence: str, code: int) -> None:
    from chainrule.cli.output import print_json

    print_json({"error": {"message": sentence, "exit_code": code}})
