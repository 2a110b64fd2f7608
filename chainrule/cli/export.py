"""`chainrule export`: a run in a format that other programs read."""

from pathlib import Path
from typing import Annotated, Any

import typer

from chainrule.cli import options

FORMATS = ("huggingface", "gguf", "onnx", "arpa")
DTYPES = ("f32", "f16", "q8_0")


def command(
    run: options.RunPath,
    to: Annotated[
        str,
        typer.Option(
            help="huggingface (a folder), gguf (for llama.cpp), onnx (a folder), or arpa (n-grams, for KenLM)."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The file or folder to write; of ARPA, - is standard output and .gz compresses it.",
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[str, typer.Option(help="Of weights in GGUF: f32, f16, or q8_0 (8 bits).")] = "f32",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there if it was exported.")] = False,
    as_json: options.Json = False,
) -> None:
    """Write a run in another program's format; models that learn are read back there, and logits compared."""
    from chainrule.errors import UserError, did_you_mean
    from chainrule.runs.folder import Run

    to, dtype = to.lower(), dtype.lower()
    if to not in FORMATS:
        raise UserError(f"unknown format '{to}'{did_you_mean(to, FORMATS)} (there are: {', '.join(FORMATS)})")
    if dtype not in DTYPES:
        raise UserError(f"unknown dtype '{dtype}'{did_you_mean(dtype, DTYPES)} (there are: {', '.join(DTYPES)})")
    if dtype != "f32" and to != "gguf":
        raise UserError(f"--dtype {dtype} is for --to gguf; {to} keeps all 32 bits")
    loaded = Run(run)
    result = _arpa(loaded, output, overwrite) if to == "arpa" else _others(loaded, to, output, dtype, overwrite)
    _report({"run": str(loaded.path), "format": to, **result}, as_json)


def _arpa(run: Any, output: Path | None, overwrite: bool) -> dict[str, Any]:
    from chainrule.errors import UserError
    from chainrule.interop.arpa import write_arpa

    if run.architecture != "ngram":
        raise UserError(
            f"'{run.path}' is a model of kind {run.architecture}; ARPA files hold n-gram models only, "
            "models that learn by gradient go --to huggingface, gguf or onnx"
        )
    path = output or Path(f"{run.name}.arpa")
    if str(path) == "-":
        path = Path("/dev/stdout")
    if path.is_file() and not overwrite:
        raise UserError(f"'{path}' exists already; choose another name with -o, or pass --overwrite")
    if path.suffix in (".zst", ".bz2", ".xz", ".zip"):
        raise UserError(f"only .gz is compressed, got '{path}'; choose a name that ends in .arpa or .arpa.gz")
    notes = write_arpa(run.model, run.tokenizer, path)
    return {"path": str(path), "bytes": path.stat().st_size, "notes": notes}


def _others(run: Any, to: str, output: Path | None, dtype: str, overwrite: bool) -> dict[str, Any]:
    from dataclasses import asdict

    from chainrule.interop.write import write_run

    stem = run.name if dtype == "f32" else f"{run.name}-{dtype}"
    path = output or Path(f"{stem}.gguf" if to == "gguf" else f"{run.name}-{to}")
    found = write_run(run, to, path, dtype, overwrite)
    files = [path] if path.is_file() else list(path.iterdir())
    checks = [asdict(each) | {"agrees": each.agrees, "sentence": each.sentence()} for each in found.checks]
    return {
        "path": str(path),
        "bytes": sum(file.stat().st_size for file in files),
        "notes": found.notes,
        "checks": checks,
        "report": str(found.report),
    }


def _report(result: dict[str, Any], as_json: bool) -> None:
    from chainrule.cli.output import print_json, print_notes, say, size

    if as_json:
        print_json(result)
        return
    path = Path(result["path"])
    if path.is_file() or path.is_dir():
        print(path)
        say(f"{size(result['bytes'])}; {READ_BY[result['format']]}")
    for check in result.get("checks", []):
        say(check["sentence"])
    print_notes(result["notes"])


READ_BY = {
    "arpa": "KenLM, SRILM and Sphinx read it",
    "huggingface": "transformers reads it: AutoModelForCausalLM.from_pretrained, AutoTokenizer.from_pretrained",
    "gguf": "llama.cpp and all that rests on it read it",
    "onnx": "onnxruntime reads it",
}
