"""A model that another program made, whatever its format: told by what is there, not by what it is called."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chainrule.errors import UserError
from chainrule.tasks.base import LANGUAGE
from chainrule.text.base import Tokenizer

FORMATS = (
    "a folder of Hugging Face, a .gguf file, llama2.c's .bin, nanoGPT's .pt, an ARPA file, or smollm2 for the package "
    "that is installed"
)


@dataclass(frozen=True)
class Found:
    architecture: str
    model: Any
    tokenizer: Tokenizer
    notes: list[str]
    format: str
    task: str = LANGUAGE
    source: Tokenizer | None = None  # of what it reads, where it writes one text from another


def read_model(path: Path, tokenizer_path: Path | None = None) -> Found:
    if str(path) == "smollm2" and not path.exists():
        from chainrule.interop.gguf import find_smollm2

        return read_model(find_smollm2())
    if path.is_dir():
        from chainrule.interop.folder import read_json
        from chainrule.interop.huggingface import read_huggingface
        from chainrule.interop.marian import read_marian

        if read_json(path / "config.json").get("model_type") == "marian":
            pair = read_marian(path)
            return Found(
                "conditional", pair.model, pair.tokenizer, pair.notes, "huggingface", "translation", pair.source
            )
        return _transformer(read_huggingface(path), "huggingface")
    if not path.exists():
        raise UserError(f"'{path}' does not exist; import takes {FORMATS}")
    if path.suffix == ".gguf":
        from chainrule.interop.gguf import read_gguf

        return _transformer(read_gguf(path), "gguf")
    if path.suffix == ".bin":
        from chainrule.interop.llama2c import read_llama2c

        return _transformer(read_llama2c(path, tokenizer_path), "llama2c")
    if path.suffix in (".pt", ".pth"):
        from chainrule.interop.nanogpt import read_nanogpt

        return _transformer(read_nanogpt(path, _tokenizer(tokenizer_path)), "nanogpt")
    if path.suffix == ".safetensors":
        raise UserError(f"'{path}' holds weights alone; name its folder, with config.json and tokenizer.json in it")
    from chainrule.interop.arpa import read_arpa

    model, tokenizer = read_arpa(path)
    return Found("ngram", model, tokenizer, [], "arpa")


def _transformer(found: Any, format: str) -> Found:
    return Found("transformer", found.model, found.tokenizer, found.notes, format)


def _tokenizer(path: Path | None) -> Tokenizer | None:
    if path is None:
        return None
    if path.is_dir():
        from chainrule.interop.huggingface import read_tokenizer

        return read_tokenizer(path, {})
    return Tokenizer.load(path)
