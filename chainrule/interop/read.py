"""Reads a model that another program made; its format is recognised by looking at the file or folder."""

from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.errors import UserError
from chainrule.interop.base import ImportedModel, Importer, all_formats, importers

if TYPE_CHECKING:
    from chainrule.runs.folder import Run


def read_model(path: Path, tokenizer_path: Path | None = None, base: "Run | None" = None) -> ImportedModel:
    """The model in a file or folder, or of an installed package where `path` is one's name.

    `tokenizer_path`: for formats that keep the tokenizer elsewhere. `base`: the run that an adapter is added to.
    """
    if not path.exists():
        path = _find_installed(path)
    importer = _recognise(path)
    if importer is None:
        raise UserError(f"'{path}' is in no known format; give {describe_importers()}")
    if importer.read_onto is not None:
        return importer.read_onto(path, base)
    if base is not None:
        raise UserError(f"'{path}' is a model by itself, which is added to no other; leave out the base")
    return importer.read(path, tokenizer_path)


def describe_importers() -> str:
    """'an ARPA file, a .gguf file, ..., or smollm2 (the installed package)'."""
    known = [each.description for each in all_formats() if each.importer is not None]
    packages = [f"{name} (the installed package)" for each in importers().values() for name in each.installed]
    *others, last = [*known, *packages]
    return f"{', '.join(others)}, or {last}"


def _find_installed(path: Path) -> Path:
    for importer in importers().values():
        if str(path) in importer.installed:
            return importer.installed[str(path)]()
    raise UserError(f"'{path}' does not exist; give {describe_importers()}")


def _recognise(path: Path) -> Importer | None:
    in_order = sorted(importers().values(), key=lambda importer: importer.is_last_resort)
    return next((importer for importer in in_order if importer.recognise(path)), None)
