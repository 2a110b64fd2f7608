"""`chainrule export`: a run in a format that other programs read."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from chainrule.cli import options
from chainrule.interop.base import FULL_PRECISION, Exporter, all_formats, exporters

if TYPE_CHECKING:
    from chainrule.interop.write import ExportedFiles
    from chainrule.runs.folder import Run

DTYPES = tuple(dict.fromkeys(dtype for each in exporters().values() for dtype in each.dtypes))


def _list_formats() -> str:
    known = [f"{each.name} ({each.description})" for each in all_formats() if each.exporter is not None]
    return f"{', '.join(known)}."


class ExportFacts(TypedDict, total=False):
    """What `chainrule export --json` prints; checks and report only where other programs have read the files back."""

    run: str
    format: str
    path: str
    bytes: int
    notes: list[str]
    checks: list[dict[str, object]]
    report: str


def command(
    run: options.RunPath,
    to: Annotated[str, typer.Option(help=_list_formats())],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The file or folder to write; of ARPA, - is standard output and .gz compresses it.",
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[str, typer.Option(help="Of weights in GGUF: f32, f16, or q8_0 (8 bits).")] = FULL_PRECISION,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there if it was exported.")] = False,
    as_json: options.Json = False,
) -> None:
    """Write a run in another program's format; models that learn are read back there, and logits compared."""
    from chainrule.errors import UserError
    from chainrule.interop.write import find_exporter, write_run
    from chainrule.runs.folder import Run

    to, dtype = to.lower(), dtype.lower()
    exporter = find_exporter(to)
    _check_dtype(dtype, to, exporter)
    loaded = Run(run)
    path = output or Path(exporter.default_name(loaded.name, dtype))
    if str(path) == "-":
        if not exporter.can_stream:
            raise UserError(f"{to} cannot be written to standard output; name a path with -o")
        path = Path("/dev/stdout")
    _report(_facts(loaded, to, write_run(loaded, to, path, dtype, overwrite)), exporter, as_json)


def _check_dtype(dtype: str, to: str, exporter: Exporter) -> None:
    from chainrule.errors import UserError, did_you_mean

    if dtype in exporter.dtypes:
        return
    able = [name for name, each in exporters().items() if dtype in each.dtypes]
    if not able:
        raise UserError(f"unknown dtype '{dtype}'{did_you_mean(dtype, DTYPES)} (there are: {', '.join(DTYPES)})")
    raise UserError(f"--dtype {dtype} is for --to {' or '.join(able)}; {to} keeps all 32 bits")


def _facts(run: "Run", to: str, found: "ExportedFiles") -> ExportFacts:
    files = list(found.path.iterdir()) if found.path.is_dir() else [found.path]
    facts: ExportFacts = {
        "run": str(run.path),
        "format": to,
        "path": str(found.path),
        "bytes": sum(file.stat().st_size for file in files),
        "notes": found.notes,
    }
    if found.report is not None:
        facts["checks"] = [asdict(each) | {"agrees": each.agrees, "sentence": each.sentence()} for each in found.checks]
        facts["report"] = str(found.report)
    return facts


def _report(facts: ExportFacts, exporter: Exporter, as_json: bool) -> None:
    from chainrule.cli.output import print_json, print_notes, say, size

    if as_json:
        print_json(facts)
        return
    path = Path(facts["path"])
    if path.is_file() or path.is_dir():
        print(path)
        say("; ".join(filter(None, [size(facts["bytes"]), exporter.read_by])))
    for check in facts.get("checks", []):
        say(str(check["sentence"]))
    print_notes(facts["notes"])
