"""Writes a Transformer as a folder of Hugging Face: settings, weights, and a tokenizer that cuts texts as ours does."""

import json
from pathlib import Path

import tokenizers
from tokenizers import processors

from chainrule.interop import _layout as layout
from chainrule.interop._chat_template import template_of
from chainrule.interop._profile import profile_of
from chainrule.models.transformer import Config, Model
from chainrule.storage import save_arrays
from chainrule.text.base import Tokenizer

LAYOUTS = {"gpt2": layout.gpt2, "llama": layout.llama}


def write_huggingface(model: Model, tokenizer: Tokenizer, folder: Path) -> None:
    """Write config.json, generation_config.json, model.safetensors and the tokenizer's files into `folder`."""
    profile = profile_of(model)
    config = model.config
    settings = (_gpt2 if profile == "gpt2" else _llama)(config)
    ends = {"bos_token_id": tokenizer.start, "eos_token_id": tokenizer.eos}
    _write(
        folder / "config.json",
        settings
        | {"vocab_size": model.vocabulary_size, "tie_word_embeddings": config.tied, "dtype": "float32", **ends},
    )
    stops = [tokenizer.eos, *(id for id in tokenizer.answer_ends if id != tokenizer.eos)]
    _write(
        folder / "generation_config.json",
        {**ends, "eos_token_id": stops if len(stops) > 1 else tokenizer.eos, "pad_token_id": tokenizer.eos},
    )
    tensors = layout.give_out(LAYOUTS[profile](config), layout.arrays_of(model))
    save_arrays(folder / "model.safetensors", tensors, {"format": "pt"})
    write_tokenizer(tokenizer, folder, config.context_length)


def _gpt2(config: Config) -> dict[str, object]:
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_embd": config.width,
        "n_layer": config.num_layers,
        "n_head": config.num_heads,
        "n_inner": config.width_of_feedforward,
        "n_positions": config.context_length,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": config.norm_epsilon,
        "embd_pdrop": config.dropout,
        "resid_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
    }


def _llama(config: Config) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": config.width,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.key_value_heads,
        "head_dim": config.width_of_head,
        "intermediate_size": config.width_of_feedforward,
        "max_position_embeddings": config.context_length,
        "hidden_act": "silu",
        "rms_norm_eps": config.norm_epsilon,
        "rope_theta": config.rotary_base,
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": config.attention_dropout,
    }


def write_tokenizer(tokenizer: Tokenizer, folder: Path, context_length: int | None) -> None:
    """Write the tokenizer so that texts begin as they do here, and '<eos>' written in a text is text.

    With a chat template that is otherwise: what the template writes are special tokens, so they are read in every text.
    """
    backend = tokenizers.Tokenizer.from_str(tokenizer.json)
    names = {"eos_token": tokenizer.end}
    if tokenizer.start is not None:
        names["bos_token"] = start = str(tokenizer.backend.id_to_token(tokenizer.start))
        backend.post_processor = processors.TemplateProcessing(
            single=[start, "$A"], pair=[start, "$A", start, "$B:1"], special_tokens=[(start, tokenizer.start)]
        )
    if tokenizer.unknown is not None:
        names["unk_token"] = str(tokenizer.backend.id_to_token(tokenizer.unknown))
    template = template_of(tokenizer.chat)
    if template:
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    (folder / "tokenizer.json").write_text(backend.to_str(pretty=True), encoding="utf-8")
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **names,
            "pad_token": tokenizer.end,
            "split_special_tokens": template is None,
            "clean_up_tokenization_spaces": False,
            **({"model_max_length": context_length} if context_length else {}),
        },
    )


def _write(path: Path, settings: dict[str, object]) -> None:
    path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
