"""Folders of PEFT: a LoRA adapter, adapter_config.json and adapter_model.safetensors, for a model that is elsewhere."""

from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.interop.base import Exporter, Format, ImportedModel, Importer
from chainrule.interop.peft.files import SETTINGS

if TYPE_CHECKING:
    from chainrule.interop._parity import Question
    from chainrule.runs.folder import Run


def _recognise(path: Path) -> bool:
    return (path / SETTINGS).is_file()


def _read_onto(path: Path, base: "Run | None") -> ImportedModel:
    from chainrule.interop.peft.read import read_adapter

    return read_adapter(path, base)


def _read(path: Path, tokenizer_path: Path | None) -> ImportedModel:
    return _read_onto(path, None)


def _check(run: "Run") -> None:
    from chainrule.interop._adapter import require_adapter
    from chainrule.interop._profile import require_gradient

    require_gradient(run, FORMAT.name)
    require_adapter(run)


def _write(run: "Run", folder: Path, dtype: str) -> list[str]:
    from chainrule.interop.peft.write import write_adapter

    return write_adapter(run, folder)


def _verify(run: "Run", folder: Path, dtype: str) -> "list[Question]":
    from chainrule.interop.peft.verify import questions

    return questions(run, folder)


def _usage(name: str) -> list[str]:
    return [
        "from peft import PeftModel",
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        "base = AutoModelForCausalLM.from_pretrained('the model that the adapter is for')",
        f"tokenizer, model = AutoTokenizer.from_pretrained({name!r}), PeftModel.from_pretrained(base, {name!r})",
        "ids = model.generate(**tokenizer('The', return_tensors='pt'), do_sample=True, max_new_tokens=50)",
        "print(tokenizer.decode(ids[0], skip_special_tokens=True))",
    ]


FORMAT = Format(
    name="peft",
    description="a LoRA adapter in a folder of PEFT",
    importer=Importer(_recognise, _read, _read_onto),
    exporter=Exporter(
        _write,
        _verify,
        _check,
        is_file=False,
        suffix="-peft",
        read_by="peft reads it: PeftModel.from_pretrained(model, folder)",
        library="peft",
        usage=_usage,
    ),
)
