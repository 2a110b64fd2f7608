"""nanoGPT's checkpoints, ckpt.pt; the tokenizer has to be named."""

from pathlib import Path

from chainrule.interop.base import Format, ImportedModel, Importer


def _recognise(path: Path) -> bool:
    return path.is_file() and path.suffix in (".pt", ".pth")


def _read(path: Path, tokenizer_path: Path | None) -> ImportedModel:
    from chainrule.interop.nanogpt.read import find_tokenizer, read_nanogpt

    found = read_nanogpt(path, find_tokenizer(tokenizer_path))
    return ImportedModel("transformer", found.model, found.tokenizer, found.notes, FORMAT.name)


FORMAT = Format(name="nanogpt", description="a .pt file of nanoGPT", importer=Importer(_recognise, _read))
