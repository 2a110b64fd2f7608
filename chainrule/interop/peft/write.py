"""Writes the adapter of a run as PEFT does: adapter_config.json, adapter_model.safetensors, and the tokenizer."""

import json
from collections.abc import Mapping
from pathlib import Path

from chainrule.interop import _layout as layout
from chainrule.interop._adapter import LAYOUTS, Factors, added_tokens, family_of, give_out, require_adapter
from chainrule.interop._profile import require_transformer
from chainrule.interop.huggingface.write import write_tokenizer
from chainrule.interop.peft.files import EMBEDDINGS, PREFIX, SETTINGS, WEIGHTS, A, B
from chainrule.models.transformer import Config, Model
from chainrule.runs.adapter import Adapter
from chainrule.runs.folder import Run
from chainrule.storage import save_arrays


def write_adapter(run: Run, folder: Path) -> list[str]:
    """Write the adapter into a folder; returns notes for people."""
    adapter, model = require_adapter(run), require_transformer(run.model)
    modules = give_out(model, adapter.arrays)
    tensors = {}
    for name, (down, up) in modules.items():
        tensors[f"{PREFIX}{name}{A}"], tensors[f"{PREFIX}{name}{B}"] = down, up
    added = added_tokens(run, adapter)
    if added:
        tensors |= _embeddings(model)
    save_arrays(folder / WEIGHTS, tensors, {"format": "pt"})
    settings = _settings(adapter, modules, model.config)
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    write_tokenizer(run.tokenizer, folder, model.config.context_length)
    notes = [f"it is for the model '{adapter.base.name}', by the name in {SETTINGS}: change that to where the model is"]
    if added:
        resize = f"model.resize_token_embeddings({model.vocabulary_size})"
        notes.append(f"training added {added} tokens, so the embedding is in it too: call {resize} before it is loaded")
    return notes


def _embeddings(model: Model) -> layout.Tensors:
    """The embedding, and the output matrix where that is another, as PEFT stores those of a larger vocabulary."""
    parts = LAYOUTS[family_of(model.config)](model.config)
    own = [each for each in parts if each.theirs[0].endswith(EMBEDDINGS)]
    return {f"{PREFIX}{name}": each for name, each in layout.give_out(own, layout.arrays_of(model)).items()}


def _settings(adapter: Adapter, modules: Mapping[str, Factors], config: Config) -> dict[str, object]:
    settings = adapter.settings
    ranks = {name: len(down) for name, (down, _) in modules.items() if len(down) != settings.rank}
    scale = settings.scale
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": adapter.base.name,
        "inference_mode": True,
        "r": settings.rank,
        "lora_alpha": _number(settings.alpha),
        "lora_dropout": settings.dropout,
        "target_modules": _targets(modules, config),
        "rank_pattern": ranks,
        "alpha_pattern": {name: _number(scale * rank) for name, rank in ranks.items()},
        "bias": "none",
        "fan_in_fan_out": family_of(config) == "gpt2",  # which has its matrices (in, out)
        "use_rslora": False,
        "use_dora": False,
        "modules_to_save": None,
        "init_lora_weights": True,
    }


def _number(value: float) -> float | int:
    """A whole number as one, as PEFT's settings have it."""
    return int(value) if value == int(value) else value


def _targets(modules: Mapping[str, Factors], config: Config) -> list[str]:
    """What PEFT looks for at the end of its modules' names; the whole names where not every layer has them all."""
    layers_of: dict[str, set[str]] = {}
    for name in modules:
        _, layer, target = _split(name)
        layers_of.setdefault(target, set()).add(layer)
    if all(len(layers) == config.num_layers for layers in layers_of.values()):
        return sorted(layers_of)
    return sorted(modules)


def _split(name: str) -> tuple[str, str, str]:
    """'model.layers.0.self_attn.q_proj' -> 'model.layers', '0', 'self_attn.q_proj'"""
    parts = name.split(".")
    place = next(index for index, part in enumerate(parts) if part.isdigit())
    return ".".join(parts[:place]), parts[place], ".".join(parts[place + 1 :])
