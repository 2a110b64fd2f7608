"""Writes a run in a format of other programs, lets these read it back and compares what they compute.

Files from which another program computes something else are removed. A report (parity.json) and a model card go with
what stays.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from chainrule.errors import Argument, UserError, did_you_mean
from chainrule.interop._card import write_card
from chainrule.interop._parity import Check, refuse_difference
from chainrule.interop.base import FULL_PRECISION, Exporter, exporters
from chainrule.runs.folder import Run, unfinished
from chainrule.version import __version__

REPORT = "parity.json"
OVERWRITE = Argument("overwrite")


@dataclass(frozen=True)
class ExportedFiles:
    """What was written, and what other programs made of it; `report` is None where none can check the format."""

    path: Path
    notes: list[str]
    checks: list[Check] = field(default_factory=list)
    report: Path | None = None


def find_exporter(format: str) -> Exporter:
    """How runs are written in the format of that name."""
    known = exporters()
    if format not in known:
        raise UserError(f"unknown format '{format}'{did_you_mean(format, known)} (there are: {', '.join(known)})")
    return known[format]


def write_run(run: Run, format: str, path: Path, dtype: str = FULL_PRECISION, overwrite: bool = False) -> ExportedFiles:
    """Write a run to `path`, a file or a folder as the format is; `dtype` is the number type of the weights."""
    exporter = find_exporter(format)
    exporter.check(run)
    if exporter.verify is None:
        _refuse_taken(path, format, exporter, overwrite)
        return ExportedFiles(path, exporter.write(run, path, dtype))
    _check_free(path, format, exporter, overwrite)
    with _unfinished(path) as folder:
        written = folder / path.name if exporter.is_file else folder
        notes = exporter.write(run, written, dtype)
        checks = [question.ask(run.tokenizer) for question in exporter.verify(run, written, dtype)]
        refuse_difference(checks)
        facts: dict[str, object] = {"run": run.name, "format": format, "chainrule": __version__, "notes": notes}
        facts["checks"] = [asdict(each) | {"agrees": each.agrees} for each in checks]
        (folder / REPORT).write_text(json.dumps(facts, indent=1), encoding="utf-8")
        write_card(folder / "README.md", run, exporter, path.name, checks, notes)
        report = _move_file(folder, path) if exporter.is_file else _move_folder(folder, path)
    return ExportedFiles(path, notes, checks, report)


def _refuse_taken(path: Path, format: str, exporter: Exporter, overwrite: bool) -> None:
    """A file is replaced if asked for and if it is of the same format; a folder that has anything in it never is."""
    if path.is_file() and not overwrite:
        raise UserError(f"'{path}' exists already; choose another name", OVERWRITE)
    if path.is_file() and path.stat().st_size and not exporter.has_format(path):
        raise UserError(f"'{path}' is not in the format {format}, so it is not overwritten; choose another name")
    if path.is_dir() and any(path.iterdir()):
        raise UserError(f"'{path}' is a folder with files in it; choose another name")


def _check_free(path: Path, format: str, exporter: Exporter, overwrite: bool) -> None:
    """Refuse to replace anything that was not exported, which the report beside or within it tells."""
    is_file = exporter.is_file
    taken = [each for each in ((path, _card(path), _report(path)) if is_file else (path,)) if each.exists()]
    if taken and not overwrite:
        raise UserError(f"'{taken[0]}' exists already; choose another name", OVERWRITE)
    if path.exists() and path.is_dir() == is_file:
        kind = "one file" if is_file else "a folder"
        raise UserError(f"{format} is {kind}, which '{path}' is not; choose another name")
    report = _report(path) if is_file else path / REPORT
    is_empty = path.is_dir() and not any(path.iterdir())
    if taken and not is_empty and not report.is_file():
        raise UserError(f"'{taken[0]}' was not made by chainrule export, so it is not overwritten; choose another name")


def _card(path: Path) -> Path:
    return path.with_name(f"{path.name}.md")


def _report(path: Path) -> Path:
    return path.with_name(f"{path.name}.{REPORT}")


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path`; it is removed in the end, whatever happens."""
    folder = unfinished(path)
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        yield folder
    except OSError as error:
        raise UserError(f"cannot write '{path}': {error.strerror or error}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _move_folder(folder: Path, path: Path) -> Path:
    """Give a finished folder its name; returns where its report is."""
    if path.exists():
        shutil.rmtree(path)
    folder.rename(path)
    return path / REPORT


def _move_file(folder: Path, path: Path) -> Path:
    """Give a finished file its name, with its card and report beside it; returns where the report is."""
    (folder / "README.md").replace(_card(path))
    (folder / REPORT).replace(_report(path))
    (folder / path.name).replace(path)
    return _report(path)
