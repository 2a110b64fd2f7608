"""Writes a Transformer as a GGUF file for llama.cpp: weights of 32 or 16 bits, or of 8 bits in blocks of 32 (Q8_0).

Norms, biases and positions are always float32. Queries and keys of Llama are reordered to neighbouring pairs.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import UserError
from chainrule.interop import _layout as layout
from chainrule.interop._profile import profile_of
from chainrule.interop.gguf import read as reading
from chainrule.interop.gguf.tokenizer import write_tokenizer
from chainrule.models.transformer import Config, Model
from chainrule.text.base import Tokenizer

if TYPE_CHECKING:
    from gguf import GGUFWriter

BLOCK = 32  # numbers that share a scale in Q8_0


def write_gguf(model: Model, tokenizer: Tokenizer, path: Path, dtype: str, name: str) -> list[str]:
    """Write the file and return notes for whoever uses it."""
    try:
        import gguf
    except ImportError:
        raise UserError("GGUF files are written with: pip install 'chainrule[interop]'") from None
    profile, config = profile_of(model), model.config
    writer = gguf.GGUFWriter(path, profile)
    kinds = {"f32": "ALL_F32", "f16": "MOSTLY_F16", "q8_0": "MOSTLY_Q8_0"}
    writer.add_name(name)
    writer.add_file_type(gguf.LlamaFileType[kinds[dtype]])
    _write_settings(writer, config, profile, model.vocabulary_size)
    write_tokenizer(writer, tokenizer)
    notes = []
    for tensor, array in _tensors(config, profile, layout.arrays_of(model)).items():
        kind = _kind(tensor, array, dtype)
        if dtype == "q8_0" and kind == "f16":
            notes.append(f"{tensor} has rows of {array.shape[1]}, not a multiple of {BLOCK}: stored as F16")
        stored = gguf.GGMLQuantizationType[kind.upper()]
        writer.add_tensor(tensor, gguf.quants.quantize(array, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return notes


def _kind(tensor: str, array: np.ndarray, dtype: str) -> str:
    """The type in which a tensor is stored: norms, biases and positions as f32; as f16 if rows are no whole blocks."""
    if array.ndim < 2 or tensor.startswith("position_embd"):
        return "f32"
    return "f16" if dtype == "q8_0" and array.shape[1] % BLOCK else dtype


def _write_settings(writer: "GGUFWriter", config: Config, profile: str, vocabulary_size: int) -> None:
    writer.add_context_length(config.context_length)
    writer.add_embedding_length(config.width)
    writer.add_block_count(config.num_layers)
    writer.add_feed_forward_length(config.width_of_feedforward)
    writer.add_head_count(config.num_heads)
    writer.add_vocab_size(vocabulary_size)
    if profile == "gpt2":
        writer.add_layer_norm_eps(config.norm_epsilon)
        return
    writer.add_head_count_kv(config.key_value_heads)
    writer.add_layer_norm_rms_eps(config.norm_epsilon)
    writer.add_rope_dimension_count(config.width_of_head)
    writer.add_rope_freq_base(config.rotary_base)


def _tensors(config: Config, profile: str, ours: layout.Tensors) -> layout.Tensors:
    """The tensors by GGUF's names and in its layout: matrices (out, in), rotary positions in pairs."""
    theirs = layout.give_out((layout.llama if profile == "llama" else layout.gpt2)(config), ours)
    names = {there: name for name, there in reading.names_of(profile, config.num_layers).items()}
    return {
        names[there]: np.ascontiguousarray(reading.lay_out(names[there], array, config, layout.pairs))
        for there, array in theirs.items()
    }
