"""nanoGPT's checkpoints, ckpt.pt: read as plain tensors, and nothing in them is ever run.

Its tokenizer is not in the checkpoint, and what lies beside it (meta.pkl) could run code: it has to be named.
"""

from pathlib import Path

from chainrule.errors import UserError
from chainrule.interop import layout
from chainrule.interop.checkpoint import arrays_in, read_checkpoint
from chainrule.interop.imported import Imported, build, flag, whole
from chainrule.models.transformer import GPT2, Config
from chainrule.text.base import Tokenizer


def read_nanogpt(path: Path, tokenizer: Tokenizer | None) -> Imported:
    found = read_checkpoint(path)
    if not isinstance(found, dict) or not all(isinstance(found.get(each), dict) for each in ("model", "model_args")):
        raise UserError(f"'{path}' is not a checkpoint of nanoGPT: it lacks its model or its model_args")
    if tokenizer is None:
        raise UserError(
            f"'{path}' holds no tokenizer; name one with --tokenizer: a tokenizer.json, or a folder with GPT-2's files"
        )
    settings = found["model_args"]
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
        for name, array in arrays_in(found["model"], path).items()
        if not name.endswith((".attn.bias", ".attn.masked_bias"))
    }
    tensors.pop("lm_head.weight", None)  # it is the embedding
    return build(config, _layout, tensors, tokenizer, whole(settings, "vocab_size"))


def _layout(config: Config) -> list[layout.Part]:
    """GPT-2's names, but matrices stand (out, in), and there may be no biases."""
    parts = [layout.Part(part.ours, part.theirs) for part in layout.gpt2(config)]
    return [part for part in parts if config.bias or not part.ours.endswith(".bias")]
