"""Reads a LoRA adapter of PEFT onto a run; settings that change what it computes otherwise are refused."""

import math
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from chainrule.errors import UserError
from chainrule.interop import _layout as layout
from chainrule.interop._adapter import LAYOUTS, Factors, family_of, find_base, take_in, with_updates
from chainrule.interop._profile import require_transformer
from chainrule.interop._torch_file import arrays_in, read_checkpoint
from chainrule.interop._weights import Settings, flag, real, whole
from chainrule.interop.base import ImportedModel
from chainrule.interop.huggingface.folder import read_json
from chainrule.interop.peft.files import EMBEDDINGS, PREFIX, SETTINGS, TORCH, WEIGHTS, A, B
from chainrule.layers.lora_settings import MATRICES, LoRA
from chainrule.models.transformer import Model
from chainrule.runs.adapter import Adapter, Base
from chainrule.runs.folder import HOME, Run
from chainrule.storage import load_arrays

# Settings that are looked at here, and those that change nothing about what a finished adapter computes.
KNOWN = {
    "r", "lora_alpha", "lora_dropout", "rank_pattern", "alpha_pattern", "use_rslora",
    "base_model_name_or_path", "auto_mapping", "peft_version", "task_type", "revision", "inference_mode",
    "target_modules", "exclude_modules", "fan_in_fan_out", "layers_to_transform", "layers_pattern", "megatron_core",
    "qalora_group_size", "runtime_config", "loftq_config", "eva_config",
}  # fmt: skip
PLAIN_STARTS = (True, False, "gaussian", "orthogonal", "eva")  # others begin by changing the model's own weights
NAME = re.compile(r"[\w.]+")


def read_adapter(folder: Path, base: Run | None) -> ImportedModel:
    """The adapter added to the base, or to the run in runs/ that its settings name."""
    settings = read_json(folder / SETTINGS)
    _check(settings)
    base = base or _named_base(folder, settings)
    model = _base_model(base)
    tensors = read_tensors(folder)
    _check_embeddings(tensors, model, base)
    pairs, scale = pairs_of(tensors, settings)
    arrays = take_in(model, pairs)
    rank = max(len(down) for down, _ in pairs.values())
    dropout = settings.get("lora_dropout", 0.0)
    used = tuple(each for each in MATRICES if any(f".lora.{each}." in name for name in arrays))
    lora = LoRA(rank, scale * rank, used, None, dropout if isinstance(dropout, float) else 0.0)
    return ImportedModel(
        base.architecture,
        with_updates(model, arrays, lora.scale),
        base.tokenizer,
        [f"a LoRA adapter of rank {rank} was added to '{base.path}'"],
        "peft",
        adapter=Adapter(lora, arrays, Base.of(base)),
    )


def pairs_of(tensors: Mapping[str, np.ndarray], settings: Settings) -> tuple[dict[str, Factors], float]:
    """A and B of every module by its name, and the scale that is meant with all of them."""
    own = {name: each for name, each in tensors.items() if not name.endswith(EMBEDDINGS)}
    return _scaled(_pairs(own), settings)


def _check_embeddings(tensors: Mapping[str, np.ndarray], model: Model, base: Run) -> None:
    """Embeddings may be stored beside the adapter, as PEFT does for a larger vocabulary, if they are the run's own."""
    parts = layout.give_out(LAYOUTS[family_of(model.config)](model.config), layout.arrays_of(model))
    for name, array in tensors.items():
        ours = parts.get(name.removeprefix(PREFIX))
        if name.endswith(EMBEDDINGS) and ours is not None and not np.array_equal(array, ours):
            what = f"the adapter has an embedding of its own, of {len(array):,} tokens, and '{base.path}' one of"
            raise UserError(f"{what} {len(ours):,}; export the whole model there and import that")


def _check(settings: Settings) -> None:
    """Refuse what is not plain LoRA: every other setting must say nothing."""
    plain = {"peft_type": ("LORA",), "bias": ("none",), "init_lora_weights": PLAIN_STARTS}
    others = {name: value for name, value in settings.items() if value and name not in KNOWN}
    strange = [name for name, value in others.items() if value not in plain.get(name, ())]
    if strange:
        what = f"'{strange[0]}' is {settings[strange[0]]!r} in the adapter's settings"
        raise UserError(f"{what}, which is not supported; only plain LoRA of matrices is")


def _named_base(folder: Path, settings: Settings) -> Run:
    name = settings.get("base_model_name_or_path")
    found = find_base(name) if isinstance(name, str) else None
    if found is None:
        raise UserError(
            f"'{folder}' is an adapter for {name!r}, and no run in {HOME}/ has that name; "
            "import that model, then name its run with --base"
        )
    return found


def _base_model(base: Run) -> Model:
    model = require_transformer(base.model)
    if family_of(model.config) == "llama" and not model.config.is_gated:
        raise UserError(f"no other program has a model as '{base.path}' is one, so no adapter of PEFT fits it")
    return model


def read_tensors(folder: Path) -> dict[str, np.ndarray]:
    if (folder / WEIGHTS).is_file():
        return load_arrays(folder / WEIGHTS)[0]
    if (folder / TORCH).is_file():
        return arrays_in(read_checkpoint(folder / TORCH), folder / TORCH)
    raise UserError(f"'{folder}' has neither {WEIGHTS} nor {TORCH}")


def _pairs(tensors: Mapping[str, np.ndarray]) -> dict[str, Factors]:
    """A and B of every module, by its name."""
    strange = next((name for name in tensors if not (name.startswith(PREFIX) and name.endswith((A, B)))), None)
    if strange is not None:
        raise UserError(f"the adapter holds '{strange}', which is no A or B of a matrix; nothing else is supported")
    modules = dict.fromkeys(name[len(PREFIX) : -len(A)] for name in tensors)
    if not modules:
        raise UserError("the adapter holds no matrix; download it again")
    return {
        each: (_numbers(tensors, f"{PREFIX}{each}{A}"), _numbers(tensors, f"{PREFIX}{each}{B}")) for each in modules
    }


def _numbers(tensors: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    if name not in tensors:
        raise UserError(f"the adapter lacks '{name}'; download it again")
    array = tensors[name]
    if array.dtype.kind != "f" or not np.isfinite(array).all():
        raise UserError(f"'{name}' of the adapter must be finite floating-point numbers; download it again")
    return array.astype(np.float32)


def _scaled(pairs: Mapping[str, Factors], settings: Settings) -> tuple[dict[str, Factors], float]:
    """The pairs with B's that are all meant with the same scale, and that scale."""
    root, rank, alpha = flag(settings, "use_rslora", False), whole(settings, "r", 8), real(settings, "lora_alpha", 8)
    ranks, alphas = (_patterns(settings, name) for name in ("rank_pattern", "alpha_pattern"))
    scales = {}
    for module, (down, _) in pairs.items():
        own = _matching(ranks, module, rank)
        if own != len(down):
            raise UserError(f"the settings give '{module}' the rank {own:g}, but its A has {len(down)} rows")
        scales[module] = _matching(alphas, module, alpha) / (math.sqrt(own) if root else own)
    common = next(iter(scales.values()))
    found = {name: (down, up * np.float32(scales[name] / common)) for name, (down, up) in pairs.items()}
    return found, common


def _patterns(settings: Settings, name: str) -> dict[str, float]:
    """Numbers by the ends of modules' names; PEFT also takes regular expressions, which are refused."""
    found = settings.get(name) or {}
    if not isinstance(found, dict) or not all(NAME.fullmatch(str(each)) for each in found):
        raise UserError(f"'{name}' in the adapter's settings must give numbers by the names of modules, got {found!r}")
    return {str(each): real(found, each, 1.0) for each in found}


def _matching(patterns: Mapping[str, float], module: str, default: float) -> float:
    return next((value for name, value in patterns.items() if f".{module}".endswith(f".{name}")), default)
