"""llama2.c's files: a small Llama in float32, with its tokenizer in another file."""

from pathlib import Path

from chainrule.interop.base import Format, ImportedModel, Importer


def _recognise(path: Path) -> bool:
    return path.is_file() and path.suffix == ".bin"


def _read(path: Path, tokenizer_path: Path | None) -> ImportedModel:
    from chainrule.interop.llama2c.read import read_llama2c

    found = read_llama2c(path, tokenizer_path)
    return ImportedModel("transformer", found.model, found.tokenizer, found.notes, FORMAT.name)


FORMAT = Format(name="llama2c", description="a .bin file of llama2.c", importer=Importer(_recognise, _read))
