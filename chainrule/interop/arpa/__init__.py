"""ARPA files, the text format of n-gram models that KenLM, SRILM and CMU Sphinx share."""

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.errors import UserError
from chainrule.interop.base import Exporter, Format, ImportedModel, Importer

if TYPE_CHECKING:
    from chainrule.runs.folder import Run

DATA = b"\\data\\"  # how these files begin


def _recognise(path: Path) -> bool:
    """Any file but bare weights: ARPA files have many names, and their reader says what is wrong with another file."""
    return not path.is_dir() and path.suffix != ".safetensors"


def _read(path: Path, tokenizer_path: Path | None) -> ImportedModel:
    from chainrule.interop.arpa.read import read_arpa

    model, tokenizer = read_arpa(path)
    return ImportedModel("ngram", model, tokenizer, [], FORMAT.name)


def _has_format(path: Path) -> bool:
    """Whether a file begins as the ARPA files that are written here."""
    open_file = gzip.open if path.suffix == ".gz" else open
    try:
        with open_file(path, "rb") as file:
            return bool(file.read(len(DATA)) == DATA)
    except (OSError, EOFError):
        return False


def _check(run: "Run") -> None:
    if run.architecture != "ngram":
        raise UserError(
            f"'{run.path}' is a model of kind {run.architecture}; ARPA files hold n-gram models only, "
            "models that learn by gradient are exported as huggingface, gguf or onnx"
        )


def _write(run: "Run", path: Path, dtype: str) -> list[str]:
    from chainrule.interop.arpa.write import write_arpa
    from chainrule.models import ngram

    if path.suffix in (".zst", ".bz2", ".xz", ".zip"):
        raise UserError(f"only .gz is compressed, got '{path}'; choose a name that ends in .arpa or .arpa.gz")
    assert isinstance(run.model, ngram.Model)
    return write_arpa(run.model, run.tokenizer, path)


FORMAT = Format(
    name="arpa",
    description="an ARPA file",
    importer=Importer(_recognise, _read, is_last_resort=True),
    exporter=Exporter(
        _write,
        check=_check,
        has_format=_has_format,
        suffix=".arpa",
        can_stream=True,
        read_by="KenLM, SRILM and Sphinx read it",
    ),
)
