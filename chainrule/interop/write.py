"""A run in another program's format, whatever it is: written, read back by programs that are not ours, and compared.

What they compute otherwise is removed again. A report (parity.json) and a card go with what stays.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from chainrule.errors import UserError
from chainrule.interop.card import write_card
from chainrule.interop.parity import LIMIT, LONGEST, Check, Question, refuse_difference
from chainrule.interop.profile import profile_of
from chainrule.interop.readers import LlamaCpp, OnnxRuntime, Ours, Transformers
from chainrule.models.contract import learns
from chainrule.runs.folder import Run, unfinished
from chainrule.version import __version__

REPORT = "parity.json"
PromptRequest = tuple[list[Question], list[str]]  # who is to read the files, and what people should know of them


@dataclass(frozen=True)
class Written:
    path: Path
    report: Path
    checks: list[Check]
    notes: list[str]


def write_run(run: Run, format: str, path: Path, dtype: str = "f32", overwrite: bool = False) -> Written:
    """`path`: a folder for huggingface and onnx, a file for gguf."""
    if not learns(run.model):
        what = f"'{run.path}' is a model of kind {run.architecture}"
        raise UserError(f"{what}; only models that learn by gradient leave as {format}, n-grams leave --to arpa")
    _check_free(path, format, overwrite)
    with _unfinished(path) as folder:
        questions, notes = WRITERS[format](run, folder, path.name, dtype)
        checks = [question.ask(run.tokenizer) for question in questions]
        refuse_difference(checks)
        facts: dict[str, Any] = {"run": run.name, "format": format, "chainrule": __version__, "notes": notes}
        facts["checks"] = [asdict(each) | {"agrees": each.agrees} for each in checks]
        (folder / REPORT).write_text(json.dumps(facts, indent=1), encoding="utf-8")
        write_card(folder / "README.md", run, format, path.name, checks, notes)
        report = _move_file(folder, path) if format == "gguf" else _move_folder(folder, path)
    return Written(path, report, checks, notes)


def _huggingface(run: Run, folder: Path, name: str, dtype: str) -> PromptRequest:
    from chainrule.interop.huggingface import read_huggingface
    from chainrule.interop.huggingface_write import write_huggingface

    model: Any = run.model
    write_huggingface(model, run.tokenizer, folder)
    return [
        Question("chainrule", "chainrule", lambda: Ours(read_huggingface(folder)), model, 0.0),
        Question("transformers", "transformers", lambda: Transformers(folder), model),
    ], []


def _gguf(run: Run, folder: Path, name: str, dtype: str) -> PromptRequest:
    """Others are asked for what the numbers in the file say, as our own reader widens them."""
    from chainrule.interop.gguf import read_gguf
    from chainrule.interop.gguf_write import write_gguf

    model: Any = run.model
    notes = write_gguf(model, run.tokenizer, folder / name, dtype, run.name)
    stored = read_gguf(folder / name)
    rounding = "" if dtype == "f32" else f"that is what storing as {dtype} changes"
    most = min(LONGEST, model.context_length)
    is_odd = profile_of(model) == "gpt2" and model.config.width_of_feedforward != 4 * model.config.width
    return [
        Question("chainrule", "chainrule", lambda: Ours(stored), model, None if rounding else 0.0, rounding),
        Question(
            "llama_cpp", "llama-cpp-python", lambda: LlamaCpp(folder / name, most), stored.model,
            *llama_cpp_limit(profile_of(model), dtype),
        ),
        Question(
            "transformers", "transformers", lambda: Transformers(folder, name), stored.model,
            unable="of GPT-2 in GGUF it takes hidden_width for 4 x width" if is_odd else "",
        ),
    ], notes  # fmt: skip


def llama_cpp_limit(profile: str, dtype: str) -> tuple[float, str]:
    """How near llama.cpp comes to what the numbers in a file say, and why no nearer."""
    if dtype == "f32":
        return (1e-3, "its GELU is a table of 16-bit numbers") if profile == "gpt2" else (LIMIT, "")
    what = "to 16 bits" if dtype == "f16" else "to 8 bits"
    return (2e-2 if dtype == "f16" else 2e-1), f"it rounds what it multiplies the weights with {what} as well"


def _onnx(run: Run, folder: Path, name: str, dtype: str) -> PromptRequest:
    from chainrule.interop.onnx import FILE, write_onnx

    write_onnx(run.model, run.tokenizer, folder)
    return [Question("onnxruntime", "onnxruntime", lambda: OnnxRuntime(folder / FILE), run.model)], []


WRITERS = {"huggingface": _huggingface, "gguf": _gguf, "onnx": _onnx}


def _check_free(path: Path, format: str, overwrite: bool) -> None:
    """What is there may be replaced if it was exported too, which the report beside it tells."""
    is_file = format == "gguf"
    taken = [each for each in ((path, _card(path), _report(path)) if is_file else (path,)) if each.exists()]
    if taken and not overwrite:
        raise UserError(f"'{taken[0]}' exists already; choose another name with -o, or pass --overwrite")
    if path.exists() and path.is_dir() == is_file:
        kind = "one file" if is_file else "a folder"
        raise UserError(f"{format} is {kind}, which '{path}' is not; choose another name with -o")
    report = _report(path) if is_file else path / REPORT
    is_empty = path.is_dir() and not any(path.iterdir())
    if taken and not is_empty and not report.is_file():
        raise UserError(f"'{taken[0]}' was not made by chainrule export, so it stays; choose another name with -o")


def _card(path: Path) -> Path:
    return path.with_name(f"{path.name}.md")


def _report(path: Path) -> Path:
    return path.with_name(f"{path.name}.{REPORT}")


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """A folder beside it to write to, which is gone in the end whatever happens."""
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
    if path.exists():
        shutil.rmtree(path)
    folder.rename(path)
    return path / REPORT


def _move_file(folder: Path, path: Path) -> Path:
    """Its card and report lie beside it, under its name."""
    (folder / "README.md").replace(_card(path))
    (folder / REPORT).replace(_report(path))
    (folder / path.name).replace(path)
    return _report(path)
