"""A LoRA adapter as a GGUF file, which llama.cpp adds to a model in GGUF (--lora)."""

from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.interop.base import Exporter, Format

if TYPE_CHECKING:
    from chainrule.interop._parity import Question
    from chainrule.runs.folder import Run


def _check(run: "Run") -> None:
    from chainrule.interop._adapter import require_adapter
    from chainrule.interop._profile import require_gradient

    require_gradient(run, FORMAT.name)
    require_adapter(run)


def _write(run: "Run", path: Path, dtype: str) -> list[str]:
    from chainrule.interop.gguf_adapter.write import write_adapter

    return write_adapter(run, path)


def _verify(run: "Run", path: Path, dtype: str) -> "list[Question]":
    from chainrule.interop.gguf_adapter.verify import questions

    return questions(run, path)


FORMAT = Format(
    name="gguf-adapter",
    description="a LoRA adapter in a .gguf file",
    exporter=Exporter(
        _write,
        _verify,
        _check,
        suffix="-adapter.gguf",
        read_by="llama.cpp adds it to the model it is for, in GGUF too",
        library="llama.cpp",
        usage=lambda name: [f"llama-cli -m BASE.gguf --lora {name} -p 'The'"],
        usage_language="",
    ),
)
