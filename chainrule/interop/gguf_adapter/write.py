"""Writes the adapter of a run as llama.cpp's convert_lora_to_gguf.py does: NAME.lora_a and NAME.lora_b of each matrix.

llama.cpp scales each pair by alpha / its own rank; B's of another rank than most are multiplied to make up for that.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from chainrule.errors import UserError
from chainrule.interop import _layout as layout
from chainrule.interop._adapter import added_tokens, give_out, require_adapter
from chainrule.interop._profile import profile_of, require_transformer
from chainrule.interop.gguf import read as reading
from chainrule.models.transformer import Model
from chainrule.runs.adapter import Adapter
from chainrule.runs.folder import Run


def write_adapter(run: Run, path: Path) -> list[str]:
    """Write the file; returns notes for people."""
    try:
        import gguf
    except ImportError:
        raise UserError("GGUF files are written with: pip install 'chainrule[interop]'") from None
    adapter, model = require_adapter(run), require_transformer(run.model)
    writer = gguf.GGUFWriter(path, profile_of(model))
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, adapter.settings.alpha)
    writer.add_name(run.name)
    writer.add_base_model_count(1)
    writer.add_base_model_name(0, adapter.base.name)
    for name, array in _tensors(adapter, model):
        writer.add_tensor(name, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    added = added_tokens(run, adapter)
    if added:
        return [
            f"training added {added} tokens, which '{adapter.base.name}' lacks: export all of the run with --to gguf"
        ]
    return [f"it is for the model '{adapter.base.name}', exported with --to gguf"]


def _tensors(adapter: Adapter, model: Model) -> Iterator[tuple[str, np.ndarray]]:
    """A's (rank, width) and B's (outputs, rank) by GGUF's names; rows of Llama's queries and keys in pairs."""
    profile, config = profile_of(model), model.config
    names = {there: name for name, there in reading.names_of(profile, config.num_layers).items()}
    for module, (down, up) in give_out(model, adapter.arrays).items():
        name = names[f"{module}.weight"]
        up = up * np.float32(adapter.settings.scale * len(down) / adapter.settings.alpha)
        yield f"{name}.lora_a", down
        yield f"{name}.lora_b", up if profile == "gpt2" else reading.lay_out(name, up, config, layout.pairs)
