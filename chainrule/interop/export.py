"""Exporting a run: a format and a path are chosen, the run is written there, and what was written is described."""

from dataclasses import asdict
from pathlib import Path
from typing import NotRequired, TypedDict

from chainrule.errors import UserError, did_you_mean
from chainrule.interop.base import FULL_PRECISION, Exporter, exporters
from chainrule.interop.write import ExportedFiles, find_exporter, write_run
from chainrule.runs.folder import Run


class Exported(TypedDict):
    """What was written; checks and report only where other programs have read the files back."""

    run: str
    format: str
    path: str
    bytes: int
    notes: list[str]
    checks: NotRequired[list[dict[str, object]]]
    report: NotRequired[str]


def export_run(
    run: Run, to: str, output: Path | None = None, dtype: str = FULL_PRECISION, overwrite: bool = False
) -> Exported:
    """Write a run to a file or folder; models that learn are read back there, and logits compared."""
    to, dtype = to.lower(), dtype.lower()
    exporter = find_exporter(to)
    _check_dtype(dtype, to, exporter)
    path = output or Path(exporter.default_name(run.name, dtype))
    if str(path) == "-":
        if not exporter.can_stream:
            raise UserError(f"{to} cannot be written to standard output; name a path")
        path = Path("/dev/stdout")
    return _describe(run, to, write_run(run, to, path, dtype, overwrite))


def _check_dtype(dtype: str, to: str, exporter: Exporter) -> None:
    if dtype in exporter.dtypes:
        return
    able = [name for name, each in exporters().items() if dtype in each.dtypes]
    if not able:
        known = tuple(dict.fromkeys(dtype for each in exporters().values() for dtype in each.dtypes))
        raise UserError(f"unknown dtype '{dtype}'{did_you_mean(dtype, known)} (there are: {', '.join(known)})")
    raise UserError(f"dtype {dtype} is for the format {' or '.join(able)}; {to} keeps all 32 bits")


def _describe(run: Run, to: str, found: ExportedFiles) -> Exported:
    files = list(found.path.iterdir()) if found.path.is_dir() else [found.path]
    described: Exported = {
        "run": str(run.path),
        "format": to,
        "path": str(found.path),
        "bytes": sum(file.stat().st_size for file in files),
        "notes": found.notes,
    }
    if found.report is not None:
        checks = [asdict(each) | {"agrees": each.agrees, "sentence": each.sentence()} for each in found.checks]
        described["checks"], described["report"] = checks, str(found.report)
    return described
