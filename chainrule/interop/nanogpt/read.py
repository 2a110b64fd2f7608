"""Reads nanoGPT's checkpoints, ckpt.pt, as plain tensors; nothing in them is ever executed.

The tokenizer is not in the checkpoint, and reading the file beside it (meta.pkl) could execute code, so it has to be
named.
"""

from pathlib import Path

from chainrule.errors import Argument, UserError
from chainrule.interop import _layout as layout
from chainrule.interop._torch_file import arrays_in, read_checkpoint
from chainrule.interop._weights import LoadedTransformer, build, flag, whole
from chainrule.interop.huggingface.read import read_tokenizer
from chainrule.models.transformer import GPT2, Config
from chainrule.text.base import Tokenizer


def find_tokenizer(path: Path | None) -> Tokenizer | None:
    """The tokenizer in a tokenizer.json or in a folder of Hugging Face."""
    if path is None:
        return None
    return read_tokenizer(path, {}) if path.is_dir() else Tokenizer.load(path)


def read_nanogpt(path: Path, tokenizer: Tokenizer | None) -> LoadedTransformer:
    found = read_checkpoint(path)
    settings, weights = found.get("model_args"), found.get("model")
    if not isinstance(settings, dict) or not isinstance(weights, dict):
        raise UserError(f"'{path}' is not a checkpoint of nanoGPT: it lacks its model or its model_args")
    if tokenizer is None:
        raise UserError(
            f"'{path}' has no tokenizer; give a tokenizer.json, or a folder with GPT-2's files",
            Argument("tokenizer", "PATH"),
        )
    config = GPT2(
        width=whole(settings, "n_embd"),
        num_layers=whole(settings, "n_layer"),
        num_heads=whole(settings, "n_head"),
        context_length=whole(settings, "block_size"),
        activation="gelu",
        bias=flag(settings, "bias", True),
    )
    tensors = {
        name.removeprefix("_orig_mod."): array
        for name, array in arrays_in(weights, path).items()
        if not name.endswith((".attn.bias", ".attn.masked_bias"))
    }
    tensors.pop("lm_head.weight", None)  # it is the embedding
    return build(config, _layout, tensors, tokenizer, whole(settings, "vocab_size"))


def _layout(config: Config) -> list[layout.Part]:
    """GPT-2's names, but matrices are stored (out, in), and there may be no biases."""
    parts = [layout.Part(part.ours, part.theirs) for part in layout.gpt2(config)]
    return [part for part in parts if config.bias or not part.ours.endswith(".bias")]
