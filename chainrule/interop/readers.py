"""Programs that read what is exported: transformers, llama.cpp and onnxruntime, none of them ours; and our own reader.

Each has a name with its version, the tokens of a text as it cuts it (None where it reads no tokenizer), and the logits
of ids: (time, vocabulary).
"""

import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from chainrule.interop.imported import Imported
from chainrule.interop.quiet import quiet


class Reader(Protocol):
    name: str

    def tokenize(self, text: str) -> list[int] | None: ...

    def logits(self, ids: list[int]) -> np.ndarray: ...


class Ours:
    """What our own importer made of the files."""

    name = "chainrule"

    def __init__(self, found: Imported):
        self._model, self._tokenizer = found.model, found.tokenizer

    def tokenize(self, text: str) -> list[int] | None:
        start = [] if self._tokenizer.start is None else [self._tokenizer.start]
        return [*start, *map(int, self._tokenizer.encode(text))]

    def logits(self, ids: list[int]) -> np.ndarray:
        with torch.no_grad():
            found: np.ndarray = self._model.step(torch.tensor([ids]), self._model.start(1))[0][0].numpy()
        return found


class Transformers:
    """A folder with its tokenizer, or the weights of a GGUF file, which it widens to float32 by itself."""

    def __init__(self, folder: Path, gguf_file: str | None = None):
        import transformers

        self.name = f"transformers {transformers.__version__}"
        with quiet():
            options: dict[str, Any] = {"dtype": torch.float32, "local_files_only": True}
            if gguf_file:
                options["gguf_file"] = gguf_file
            self._model = transformers.AutoModelForCausalLM.from_pretrained(folder, **options).eval()
            self._tokenizer = None if gguf_file else transformers.AutoTokenizer.from_pretrained(folder)

    def tokenize(self, text: str) -> list[int] | None:
        if self._tokenizer is None:
            return None
        return [int(id) for id in self._tokenizer(text, split_special_tokens=True)["input_ids"]]

    def logits(self, ids: list[int]) -> np.ndarray:
        with torch.no_grad():
            found: np.ndarray = self._model(torch.tensor([ids])).logits[0].float().numpy()
        return found


class LlamaCpp:
    """llama.cpp with its keys and values kept in 32 bits."""

    def __init__(self, path: Path, most: int):
        import llama_cpp

        self.name = f"llama.cpp (llama-cpp-python {llama_cpp.__version__})"
        llama_cpp.llama_log_set(_silence(llama_cpp), None)
        whole = llama_cpp.GGML_TYPE_F32
        self._model = llama_cpp.Llama(
            str(path), n_ctx=most, n_batch=most, logits_all=True, verbose=False, type_k=whole, type_v=whole,
            n_threads=os.cpu_count(),
        )  # fmt: skip

    def tokenize(self, text: str) -> list[int] | None:
        return list(self._model.tokenize(text.encode(), add_bos=True, special=False))

    def logits(self, ids: list[int]) -> np.ndarray:
        self._model.reset()
        self._model.eval(ids)
        return np.array(self._model.scores[: len(ids)])


_SILENT: list[Any] = []  # llama.cpp keeps a pointer to it, so it must live


def _silence(llama_cpp: Any) -> Any:
    if not _SILENT:
        _SILENT.append(llama_cpp.llama_log_callback(lambda level, text, data: None))
    return _SILENT[0]


class OnnxRuntime:
    """A step fed twice, half of the text each, where the graph has a state; else the whole text."""

    def __init__(self, path: Path):
        import onnxruntime

        self.name = f"onnxruntime {onnxruntime.__version__}"
        self._session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def tokenize(self, text: str) -> list[int] | None:
        return None

    def logits(self, ids: list[int]) -> np.ndarray:
        parts = self._session.get_inputs()[1:]
        state = {part.name: np.zeros((1, part.shape[1]), np.float32) for part in parts}
        half = len(ids) // 2 if parts else 0
        found = []
        for piece in (ids[:half], ids[half:]):
            if piece:
                logits, *after = self._session.run(None, {"tokens": np.array([piece], np.int64), **state})
                state = dict(zip(state, after, strict=True))
                found.append(logits[0])
        return np.concatenate(found)
