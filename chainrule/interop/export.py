"""A run written in another program's format, and what was written."""

from dataclasses import asdict
from pathlib import Path
from typing import NotRequired, TypedDict

from chainrule.errors import UserError, did_you_mean
from chainrule.interop.arpa import write_arpa
from chainrule.interop.write import write_run
from chainrule.models import ngram
from chainrule.runs.folder import Run

FORMATS = ("huggingface", "gguf", "onnx", "arpa")
DTYPES = ("f32", "f16", "q8_0")


class Exported(TypedDict):
    """What was written and, of models that learn, how far the format's own reader agrees with us."""

    run: str
    format: str
    path: str
    bytes: int
    notes: list[str]
    checks: NotRequired[list[dict[str, object]]]
    report: NotRequired[str]


def export_run(run: Run, to: str, output: Path | None = None, dtype: str = "f32", overwrite: bool = False) -> Exported:
    """Write a run to a file or folder; models that learn are read back there, and logits compared."""
    to, dtype = to.lower(), dtype.lower()
    if to not in FORMATS:
        raise UserError(f"unknown format '{to}'{did_you_mean(to, FORMATS)} (there are: {', '.join(FORMATS)})")
    if dtype not in DTYPES:
        raise UserError(f"unknown dtype '{dtype}'{did_you_mean(dtype, DTYPES)} (there are: {', '.join(DTYPES)})")
    if dtype != "f32" and to != "gguf":
        raise UserError(f"dtype {dtype} is for the format gguf; {to} keeps all 32 bits")
    return _export_arpa(run, output, overwrite) if to == "arpa" else _export(run, to, output, dtype, overwrite)


def _export_arpa(run: Run, output: Path | None, overwrite: bool) -> Exported:
    if not isinstance(run.model, ngram.Model):
        raise UserError(
            f"'{run.path}' is a model of kind {run.architecture}; ARPA files hold n-gram models only, "
            "models that learn by gradient are exported to huggingface, gguf or onnx"
        )
    path = output or Path(f"{run.name}.arpa")
    if str(path) == "-":
        path = Path("/dev/stdout")
    if path.is_file() and not overwrite:
        raise UserError(f"'{path}' exists already; choose another output, or pass overwrite")
    if path.suffix in (".zst", ".bz2", ".xz", ".zip"):
        raise UserError(f"only .gz is compressed, got '{path}'; choose a name that ends in .arpa or .arpa.gz")
    notes = write_arpa(run.model, run.tokenizer, path)
    return {"run": str(run.path), "format": "arpa", "path": str(path), "bytes": path.stat().st_size, "notes": notes}


def _export(run: Run, to: str, output: Path | None, dtype: str, overwrite: bool) -> Exported:
    stem = run.name if dtype == "f32" else f"{run.name}-{dtype}"
    path = output or Path(f"{stem}.gguf" if to == "gguf" else f"{run.name}-{to}")
    found = write_run(run, to, path, dtype, overwrite)
    files = [path] if path.is_file() else list(path.iterdir())
    return {
        "run": str(run.path),
        "format": to,
        "path": str(path),
        "bytes": sum(file.stat().st_size for file in files),
        "notes": found.notes,
        "checks": [asdict(each) | {"agrees": each.agrees, "sentence": each.sentence()} for each in found.checks],
        "report": str(found.report),
    }
