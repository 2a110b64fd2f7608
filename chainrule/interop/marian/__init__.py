"""Marian's translators, as Helsinki-NLP publishes them: folders of Hugging Face with a model of type marian."""

import json
from pathlib import Path

from chainrule.interop.base import Format, ImportedModel, Importer


def _recognise(path: Path) -> bool:
    try:
        settings = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(settings, dict) and settings.get("model_type") == "marian"


def _read(path: Path, tokenizer_path: Path | None) -> ImportedModel:
    from chainrule.interop.marian.read import read_marian

    found = read_marian(path)
    return ImportedModel(
        "conditional", found.model, found.tokenizer, found.notes, "huggingface", "translation", found.source
    )


FORMAT = Format(name="marian", description="the folder of a Marian translator", importer=Importer(_recognise, _read))
