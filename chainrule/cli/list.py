"""`chainrule list`: the runs there are."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chainrule.cli import options

if TYPE_CHECKING:
    from chainrule.runs.listing import RunSummary

UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="The folder to look in.", show_default=True)
    ] = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """List runs with their model, size, quality and age, and trainings that can be resumed."""
    from dataclasses import asdict

    from chainrule.cli.output import print_json, say
    from chainrule.errors import UserError
    from chainrule.runs.folder import HOME
    from chainrule.runs.listing import list_runs

    if folder != HOME and not folder.is_dir():
        raise UserError(f"there is no folder '{folder}'")
    found = list_runs(folder)
    if as_json:
        print_json([asdict(each) | {"age_seconds": each.age_seconds} for each in found])
    elif not found:
        say(f"there are no runs in '{folder}' yet; make one with: chainrule train YOUR.txt")
    else:
        _report(found)


def _report(found: "list[RunSummary]") -> None:
    from chainrule.cli.output import print_table, say

    print_table(("run", "model", "parameters", "on disk", "bits/byte", "age"), map(_row, found), left=2)
    for each in found:
        if each.status == "unfinished":
            say(f"{each.run} is unfinished; continue with: chainrule train --resume {each.run}")


def _row(each: "RunSummary") -> tuple[str, ...]:
    from chainrule.analysis.plan.quantities import count_text
    from chainrule.cli.output import number, size

    about = " ".join(filter(None, [each.model, "" if each.status == "finished" else f"({each.status})"]))
    return (
        each.run,
        about,
        "" if each.parameters is None else count_text(each.parameters, 3),
        "" if each.bytes is None else size(each.bytes),
        "" if each.bits_per_byte is None else number(each.bits_per_byte, 4),
        "" if each.age_seconds is None else _age(each.age_seconds),
    )


def _age(seconds: float) -> str:
    """'3 d', '5 h', '12 min', '8 s'."""
    name, length = next((unit for unit in UNITS if seconds >= unit[1]), UNITS[-1])
    return f"{seconds // length:.0f} {name}"
