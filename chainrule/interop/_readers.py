"""Programs that read exported files back: our own reader, and transformers. Formats add others of their own."""

from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from chainrule.interop._quiet import quiet
from chainrule.interop._weights import LoadedTransformer


class Reader(Protocol):
    """A program with a model loaded from exported files."""

    @property
    def name(self) -> str:
        """For people, with its version."""
        ...

    def tokenize(self, text: str) -> list[int] | None:
        """The tokens of a text; None where the program reads no tokenizer."""
        ...

    def logits(self, ids: list[int]) -> np.ndarray:
        """(time, vocabulary)"""
        ...


class Ours:
    """Our own importer."""

    name = "chainrule"

    def __init__(self, found: LoadedTransformer):
        self._model, self._tokenizer = found.model, found.tokenizer

    def tokenize(self, text: str) -> list[int] | None:
        start = [] if self._tokenizer.start is None else [self._tokenizer.start]
        return [*start, *map(int, self._tokenizer.encode(text))]

    def logits(self, ids: list[int]) -> np.ndarray:
        with torch.no_grad():
            found: np.ndarray = self._model.step(torch.tensor([ids]), self._model.start(1))[0][0].numpy()
        return found


class Transformers:
    """transformers, with the tokenizer of a folder, or with the weights of a GGUF file widened to float32."""

    def __init__(self, folder: Path, gguf_file: str | None = None):
        import transformers

        self.name = f"transformers {transformers.__version__}"
        with quiet():
            options = {"gguf_file": gguf_file} if gguf_file else {}
            self._model = transformers.AutoModelForCausalLM.from_pretrained(
                folder, dtype=torch.float32, local_files_only=True, **options
            ).eval()
            self._tokenizer = None if gguf_file else transformers.AutoTokenizer.from_pretrained(folder)

    def tokenize(self, text: str) -> list[int] | None:
        if self._tokenizer is None:
            return None
        return [int(id) for id in self._tokenizer(text, split_special_tokens=True)["input_ids"]]

    def logits(self, ids: list[int]) -> np.ndarray:
        with torch.no_grad():
            found: np.ndarray = self._model(torch.tensor([ids])).logits[0].float().numpy()
        return found
