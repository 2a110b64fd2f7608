"""GGUF: one file with settings, weights and tokenizer, for llama.cpp and the many programs built on it."""

from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.interop.base import Exporter, Format, ImportedModel, Importer

if TYPE_CHECKING:
    from chainrule.interop._parity import Question
    from chainrule.runs.folder import Run


def _recognise(path: Path) -> bool:
    return path.is_file() and path.suffix == ".gguf"


def _read(path: Path, tokenizer_path: Path | None) -> ImportedModel:
    from chainrule.interop.gguf.read import read_gguf

    found = read_gguf(path)
    return ImportedModel("transformer", found.model, found.tokenizer, found.notes, FORMAT.name)


def _find_smollm2() -> Path:
    from chainrule.interop.gguf.read import find_smollm2

    return find_smollm2()


def _check(run: "Run") -> None:
    from chainrule.interop._profile import require_gradient

    require_gradient(run, FORMAT.name)


def _write(run: "Run", path: Path, dtype: str) -> list[str]:
    from chainrule.interop._profile import require_transformer
    from chainrule.interop.gguf.write import write_gguf

    return write_gguf(require_transformer(run.model), run.tokenizer, path, dtype, run.name)


def _verify(run: "Run", path: Path, dtype: str) -> "list[Question]":
    from chainrule.interop.gguf.verify import questions

    return questions(run, path, dtype)


FORMAT = Format(
    name="gguf",
    description="a .gguf file",
    importer=Importer(_recognise, _read, installed={"smollm2": _find_smollm2}),
    exporter=Exporter(
        _write,
        _verify,
        _check,
        suffix=".gguf",
        dtypes=("f32", "f16", "q8_0"),
        read_by="llama.cpp and all that rests on it read it",
        library="llama.cpp",
        usage=lambda name: [f"llama-cli -m {name} -p 'The'"],
        usage_language="",
    ),
)
