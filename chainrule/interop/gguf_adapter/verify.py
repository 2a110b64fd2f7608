"""The file is read back by the gguf package, and what it holds is added to the base."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.interop import _layout as layout
from chainrule.interop._adapter import base_model, require_adapter, take_in, with_updates
from chainrule.interop._parity import Question
from chainrule.interop._profile import profile_of, require_transformer
from chainrule.interop._readers import Ours
from chainrule.interop._weights import LoadedTransformer
from chainrule.interop.gguf import read as reading
from chainrule.models.transformer import Model
from chainrule.runs.folder import Run
from chainrule.text.base import Tokenizer


def questions(run: Run, path: Path) -> list[Question]:
    base, notes = base_model(run, require_adapter(run))
    model, note = require_transformer(run.model), "; ".join(notes)
    return [Question("gguf", "gguf", lambda: GgufPackage(base, run.tokenizer, path), model, note=note)]


class GgufPackage(Ours):
    """Our model with the updates that the gguf package finds in a file, each scaled as llama.cpp does."""

    def __init__(self, base: Model, tokenizer: Tokenizer, path: Path):
        import gguf

        found = gguf.GGUFReader(path)
        alpha = float(found.fields[gguf.Keys.Adapter.LORA_ALPHA].contents())
        profile, config = profile_of(base), base.config
        names, pairs = reading.names_of(profile, config.num_layers), {}
        for name, pair in _pairs(found).items():
            down, up = pair["lora_a"], pair["lora_b"] * np.float32(alpha / len(pair["lora_a"]))
            up = up if profile == "gpt2" else reading.lay_out(name, up, config, layout.halves)
            pairs[names[name].removesuffix(".weight")] = (down, up)
        model = with_updates(base, take_in(base, pairs), 1.0)
        super().__init__(LoadedTransformer(model, tokenizer))
        self.name = "the gguf package"

    def tokenize(self, text: str) -> list[int] | None:
        return None  # an adapter has no tokenizer


def _pairs(found: Any) -> dict[str, dict[str, np.ndarray]]:
    """{'blk.0.attn_q.weight': {'lora_a': ..., 'lora_b': ...}}"""
    pairs: dict[str, dict[str, np.ndarray]] = defaultdict(dict)
    for tensor in found.tensors:
        name, _, which = tensor.name.rpartition(".")
        pairs[name][which] = np.array(tensor.data)
    return pairs
