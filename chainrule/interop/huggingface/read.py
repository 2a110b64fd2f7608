"""Reads Transformers from folders of Hugging Face: config.json, *.safetensors, and a tokenizer.

Nothing in them is executed. A setting that changes what a model computes in a way not built here is refused, because a
model that loads and is silently wrong is worse than none.
"""

from collections.abc import Callable
from pathlib import Path

from chainrule.errors import UserError
from chainrule.interop import _layout as layout
from chainrule.interop._chat_template import recognise
from chainrule.interop._weights import LoadedTransformer, Settings, build, flag, real, require, whole
from chainrule.interop.huggingface.folder import read_json, read_tensors
from chainrule.models.transformer import GPT2, LLAMA, Config
from chainrule.text.base import Tokenizer, library_errors
from chainrule.text.bpe import load_gpt2

ACTIVATIONS = {"gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "gelu": "gelu", "relu": "relu"}
# Tensors that only repeat what the settings say.
BUFFERS = (".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias")


def read_huggingface(folder: Path) -> LoadedTransformer:
    """The model and the tokenizer of a folder."""
    settings = read_json(folder / "config.json")
    kind = settings.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise UserError(f"'{folder}' holds a model of type {kind!r}; supported are {', '.join(FAMILIES)}, marian")
    read, parts = FAMILIES[kind]
    config = read(settings)
    tokenizer = read_tokenizer(folder, settings)
    tensors = read_tensors(folder)
    if kind == "gpt2" and "wte.weight" in tensors:  # as in the first release
        tensors = {f"transformer.{name}": array for name, array in tensors.items()}
    tensors = {name: array for name, array in tensors.items() if not name.endswith(BUFFERS)}
    if config.tied:
        for name in ("lm_head.weight", "embed_out.weight"):
            tensors.pop(name, None)
    return build(config, parts, tensors, tokenizer, whole(settings, "vocab_size"))


def _gpt2(settings: Settings) -> Config:
    require(settings, "scale_attn_weights", (True,), True)
    require(settings, "scale_attn_by_inverse_layer_idx", (False,), False)
    require(settings, "reorder_and_upcast_attn", (False,), False)
    require(settings, "add_cross_attention", (False,), False)
    width = whole(settings, "n_embd")
    return GPT2(
        width=width,
        num_layers=whole(settings, "n_layer"),
        num_heads=whole(settings, "n_head"),
        hidden_width=whole(settings, "n_inner", 4 * width),
        context_length=whole(settings, "n_positions"),
        norm_epsilon=real(settings, "layer_norm_epsilon", 1e-5),
        activation=_activation(settings, "activation_function", "gelu_new"),
        tied=flag(settings, "tie_word_embeddings", True),
    )


def _llama(settings: Settings) -> Config:
    require(settings, "hidden_act", ("silu",), "silu")
    require(settings, "mlp_bias", (False,), False)
    require(settings, "use_sliding_window", (False, None), False)
    settings = _with_rotary(settings)
    require(settings, "partial_rotary_factor", (1,), 1)
    kind = settings["model_type"]
    if kind == "mistral":
        require(settings, "sliding_window", (None,), 4096)  # the default
    return LLAMA(
        width=whole(settings, "hidden_size"),
        num_layers=whole(settings, "num_hidden_layers"),
        num_heads=whole(settings, "num_attention_heads"),
        num_key_value_heads=whole(settings, "num_key_value_heads", whole(settings, "num_attention_heads")),
        head_width=None if settings.get("head_dim") is None else whole(settings, "head_dim"),
        hidden_width=whole(settings, "intermediate_size"),
        context_length=whole(settings, "max_position_embeddings"),
        norm_epsilon=real(settings, "rms_norm_eps", 1e-6),
        rotary_base=_rotary_base(settings),
        tied=flag(settings, "tie_word_embeddings", False),
        attention_bias="queries"
        if kind == "qwen2"
        else "all"
        if flag(settings, "attention_bias", False)
        else "as-bias",
        qk_norm=kind == "qwen3",
    )


def _neox(settings: Settings) -> Config:
    require(settings, "attention_bias", (True,), True)
    settings = _with_rotary(settings)
    return Config(
        width=whole(settings, "hidden_size"),
        num_layers=whole(settings, "num_hidden_layers"),
        num_heads=whole(settings, "num_attention_heads"),
        hidden_width=whole(settings, "intermediate_size"),
        context_length=whole(settings, "max_position_embeddings"),
        norm="layer",
        norm_epsilon=real(settings, "layer_norm_eps", 1e-5),
        activation=_activation(settings, "hidden_act", "gelu"),
        positions="rotary",
        rotary_base=_rotary_base(settings),
        rotary_fraction=real(settings, "rotary_pct", real(settings, "partial_rotary_factor", 0.25)),
        parallel=flag(settings, "use_parallel_residual", True),
        tied=flag(settings, "tie_word_embeddings", False),
        bias=True,
        initialisation="normal",
    )


FAMILIES: dict[str, tuple[Callable[[Settings], Config], Callable[[Config], list[layout.Part]]]] = {
    "gpt2": (_gpt2, layout.gpt2),
    "llama": (_llama, layout.llama),
    "mistral": (_llama, layout.llama),
    "qwen2": (_llama, layout.llama),
    "qwen3": (_llama, layout.llama),
    "gpt_neox": (_neox, layout.neox),
}


def _activation(settings: Settings, name: str, default: str) -> str:
    require(settings, name, tuple(ACTIVATIONS), default)
    return ACTIVATIONS[str(settings.get(name, default))]


def _with_rotary(settings: Settings) -> dict[str, object]:
    """The settings with those of rotary positions among them; positions scaled for longer texts are refused."""
    found = dict(settings)
    for name in ("rope_scaling", "rope_parameters"):  # older and newer
        scaling = {} if settings.get(name) is None else settings[name]
        if not isinstance(scaling, dict):
            raise UserError(f"the rotary settings of the model must be an object, got {scaling!r}")
        for kind in (scaling.get("rope_type", "default"), scaling.get("type", "default")):
            if kind != "default":
                raise UserError(f"the model's rotary positions are of type '{kind}'; only plain ones are supported")
        found |= scaling
    return found


def _rotary_base(settings: Settings) -> float:
    return real(settings, "rope_theta", real(settings, "rotary_emb_base", 10000.0))


def read_tokenizer(folder: Path, settings: Settings) -> Tokenizer:
    """The tokenizer of a folder, which ends texts with the token that the model's settings name.

    It also begins them with a token if the folder's does, and knows the style of its chat template.
    """
    if not (folder / "tokenizer.json").is_file():
        tokenizer = _from_gpt2_files(folder)
    else:
        tokenizer = Tokenizer.load(folder / "tokenizer.json", _end_name(folder, settings))
    end = _end(settings)
    if end not in (None, tokenizer.eos):
        raise UserError(
            f"the model's settings end texts with token {end!r}, which the tokenizer in '{folder}' does not"
        )
    if tokenizer.vocabulary_size == 0:
        raise UserError(f"the tokenizer in '{folder}' is empty")
    tokenizer.start = _start(tokenizer, folder)
    tokenizer.backend.post_processor = None  # it only added the first token, which is known now
    tokenizer.chat = recognise(_chat_template(folder))
    return tokenizer


def _chat_template(folder: Path) -> object:
    """The chat template, from a file of its own or from the settings; of several, the default one."""
    if (folder / "chat_template.jinja").is_file():
        try:
            return (folder / "chat_template.jinja").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read '{folder / 'chat_template.jinja'}': {error}") from None
    if not (folder / "tokenizer_config.json").is_file():
        return None
    found = read_json(folder / "tokenizer_config.json").get("chat_template")
    if isinstance(found, list):
        named = [each for each in found if isinstance(each, dict)]
        return next((each.get("template") for each in named if each.get("name") == "default"), None)
    return found


def _start(tokenizer: Tokenizer, folder: Path) -> int | None:
    """The token that the tokenizer puts before a text, if any."""
    with library_errors(f"the tokenizer in '{folder}' cannot cut a text"):
        bare, dressed = (tokenizer.backend.encode("a", add_special_tokens=each).ids for each in (False, True))
    if dressed == bare:
        return None
    if dressed[1:] != bare:
        raise UserError(
            f"the tokenizer in '{folder}' adds more to a text than one token in front, which is not supported"
        )
    return int(dressed[0])


def _from_gpt2_files(folder: Path) -> Tokenizer:
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        return load_gpt2(folder, "vocab.json", "merges.txt")
    if (folder / "encoder.json").is_file() and (folder / "vocab.bpe").is_file():
        return load_gpt2(folder)
    raise UserError(f"'{folder}' has no tokenizer: neither tokenizer.json nor vocab.json and merges.txt")


def _end(settings: Settings) -> object:
    """The id of the token that ends texts, or the first of several."""
    end = settings.get("eos_token_id")
    return end[0] if isinstance(end, list) and end else end


def _end_name(folder: Path, settings: Settings) -> str | None:
    """The name of the token whose id the settings give."""
    end = _end(settings)
    words = read_json(folder / "tokenizer.json")
    added = words.get("added_tokens")
    tokens = [each for each in added if isinstance(each, dict)] if isinstance(added, list) else []
    return next((str(each["content"]) for each in tokens if each.get("id") == end), None)
