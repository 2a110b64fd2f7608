"""Which programs read a GGUF file back after it was written, and how near their logits must come."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.interop._parity import LIMIT, LONGEST, Question
from chainrule.interop._profile import profile_of, require_transformer
from chainrule.interop._readers import Ours, Transformers
from chainrule.interop.gguf.read import read_gguf
from chainrule.runs.folder import Run


def questions(run: Run, path: Path, dtype: str) -> list[Question]:
    """Other programs are compared with the numbers in the file, as our own reader widens them to float32."""
    model = require_transformer(run.model)
    profile, config = profile_of(model), model.config
    stored = read_gguf(path)
    rounding = "" if dtype == "f32" else f"that is what storing as {dtype} changes"
    most = min(LONGEST, config.context_length)
    is_odd = profile == "gpt2" and config.width_of_feedforward != 4 * config.width
    return [
        Question("chainrule", "chainrule", lambda: Ours(stored), model, None if rounding else 0.0, rounding),
        Question(
            "llama_cpp", "llama-cpp-python", lambda: LlamaCpp(path, most), stored.model,
            *llama_cpp_limit(profile, dtype),
        ),
        Question(
            "transformers", "transformers", lambda: Transformers(path.parent, path.name), stored.model,
            unable="of GPT-2 in GGUF it takes hidden_width for 4 x width" if is_odd else "",
        ),
    ]  # fmt: skip


def llama_cpp_limit(profile: str, dtype: str) -> tuple[float, str]:
    """How much llama.cpp may differ from what the numbers in a file say, and why that much."""
    if dtype == "f32":
        return (1e-3, "its GELU is a table of 16-bit numbers") if profile == "gpt2" else (LIMIT, "")
    what = "to 16 bits" if dtype == "f16" else "to 8 bits"
    return (2e-2 if dtype == "f16" else 2e-1), f"it rounds what it multiplies the weights with {what} as well"


class LlamaCpp:
    """llama.cpp with its keys and values kept in 32 bits."""

    def __init__(self, path: Path, most: int):
        import llama_cpp

        self.name = f"llama.cpp (llama-cpp-python {llama_cpp.__version__})"
        llama_cpp.llama_log_set(_silent_log(llama_cpp), None)
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


_SILENT: list[object] = []  # llama.cpp keeps a pointer to the callback, so it must not be collected


def _silent_log(llama_cpp: Any) -> object:
    """A callback that writes nothing; `llama_cpp` is the package, which has no types."""
    if not _SILENT:
        _SILENT.append(llama_cpp.llama_log_callback(lambda level, text, data: None))
    return _SILENT[0]
