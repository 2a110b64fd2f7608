"""Folders of Hugging Face: config.json, weights as safetensors, and a tokenizer."""

from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.errors import UserError
from chainrule.interop.base import Exporter, Format, ImportedModel, Importer

if TYPE_CHECKING:
    from chainrule.interop._parity import Question
    from chainrule.runs.folder import Run


def _recognise(path: Path) -> bool:
    return path.is_dir() or path.suffix == ".safetensors"


def _read(path: Path, tokenizer_path: Path | None) -> ImportedModel:
    from chainrule.interop.huggingface.read import read_huggingface

    if not path.is_dir():
        raise UserError(f"'{path}' holds weights alone; name its folder, with config.json and tokenizer.json in it")
    found = read_huggingface(path)
    return ImportedModel("transformer", found.model, found.tokenizer, found.notes, FORMAT.name)


def _check(run: "Run") -> None:
    from chainrule.interop._profile import require_gradient

    require_gradient(run, FORMAT.name)


def _write(run: "Run", folder: Path, dtype: str) -> list[str]:
    from chainrule.interop._profile import require_transformer
    from chainrule.interop.huggingface.write import write_huggingface

    write_huggingface(require_transformer(run.model), run.tokenizer, folder)
    return []


def _verify(run: "Run", folder: Path, dtype: str) -> "list[Question]":
    """Our own reader must find the very same numbers; transformers is compared too."""
    from chainrule.interop._parity import Question
    from chainrule.interop._profile import require_transformer
    from chainrule.interop._readers import Ours, Transformers
    from chainrule.interop.huggingface.read import read_huggingface

    model = require_transformer(run.model)
    return [
        Question("chainrule", "chainrule", lambda: Ours(read_huggingface(folder)), model, 0.0),
        Question("transformers", "transformers", lambda: Transformers(folder), model),
    ]


def _usage(name: str) -> list[str]:
    return [
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        f"tokenizer, model = (each.from_pretrained({name!r}) for each in (AutoTokenizer, AutoModelForCausalLM))",
        "ids = model.generate(**tokenizer('The', return_tensors='pt'), do_sample=True, max_new_tokens=50)",
        "print(tokenizer.decode(ids[0], skip_special_tokens=True))",
    ]


FORMAT = Format(
    name="huggingface",
    description="a Hugging Face folder",
    importer=Importer(_recognise, _read, is_last_resort=True),
    exporter=Exporter(
        _write,
        _verify,
        _check,
        is_file=False,
        suffix="-huggingface",
        read_by="transformers reads it: AutoModelForCausalLM.from_pretrained, AutoTokenizer.from_pretrained",
        library="transformers",
        usage=_usage,
    ),
)
