"""The low-rank updates of a run by the names of Hugging Face's modules, and back.

There a module has one A and one B. A matrix in which several of ours are stacked, as GPT-2's of queries, keys and
values, so has A's below each other and B's along a diagonal; or one A, where all of ours are the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from chainrule.errors import UserError
from chainrule.interop import _layout as layout
from chainrule.interop._profile import profile_of, require_transformer
from chainrule.interop._weights import fill
from chainrule.layers.lora import fold_arrays, stacked_matrices
from chainrule.models.transformer import Config, Model
from chainrule.runs.adapter import Adapter, Base, adapter_of
from chainrule.runs.folder import HOME, Run
from chainrule.runs.records import CONFIG

Factors = tuple[np.ndarray, np.ndarray]  # A (rank, width) and B (outputs, rank)
Rows = tuple[int, int]

LAYOUTS = {"gpt2": layout.gpt2, "llama": layout.llama, "gpt_neox": layout.neox}


@dataclass(frozen=True)
class Module:
    """A module of theirs, the layer of ours that it is or is a part of, and which of our matrices it holds."""

    name: str
    layer: str
    width: int
    rows: Mapping[str, Rows]  # within the module
    part: layout.Part

    @property
    def outputs(self) -> int:
        return max(last for _, last in self.rows.values())

    def keys(self, matrix: str) -> tuple[str, str]:
        """The names of A and B of one of our matrices."""
        return f"{self.layer}.lora.{matrix}.A", f"{self.layer}.lora.{matrix}.B"


def family_of(config: Config) -> str:
    """Whose names a Transformer's modules have in other programs."""
    if config.positions == "learned":
        return "gpt2"
    return "gpt_neox" if config.norm == "layer" else "llama"


def modules_of(model: Model) -> Iterator[Module]:
    """All modules of theirs that have matrices which can have updates."""
    stacked = stacked_matrices(model)
    for part in LAYOUTS[family_of(model.config)](model.config):
        layer = part.ours.removesuffix(".weight")
        if layer == part.ours or layer not in stacked:
            continue
        names, width = [each.removesuffix(".weight") for each in part.theirs], model.get_submodule(layer).in_features
        if len(names) == 1:
            yield Module(names[0], layer, int(width), stacked[layer], part)  # type: ignore[arg-type]
            continue
        for name, (matrix, (first, last)) in zip(names, stacked[layer].items(), strict=True):
            yield Module(name, layer, int(width), {matrix: (0, last - first)}, part)  # type: ignore[arg-type]


def give_out(model: Model, arrays: Mapping[str, np.ndarray]) -> dict[str, Factors]:
    """The updates of our matrices as those of their modules, the scale being the same."""
    found = {}
    for module in modules_of(model):
        own = {each: module.keys(each) for each in module.rows if module.keys(each)[0] in arrays}
        pairs = {each: (np.asarray(arrays[down]), np.asarray(arrays[up])) for each, (down, up) in own.items()}
        if pairs:
            found[module.name] = _joined(module, pairs)
    return found


def _joined(module: Module, pairs: Mapping[str, Factors]) -> Factors:
    """One A and one B for all matrices of a module."""
    downs = [down for down, _ in pairs.values()]
    is_shared = all(np.array_equal(each, downs[0]) for each in downs)
    down = downs[0] if is_shared else np.concatenate(downs)
    up, column = np.zeros((module.outputs, len(down)), np.float32), 0
    for matrix, (_, own) in pairs.items():
        first, last = module.rows[matrix]
        up[first:last, column : column + own.shape[1]] = own
        column += 0 if is_shared else own.shape[1]
    return np.ascontiguousarray(down, np.float32), up


def take_in(model: Model, theirs: Mapping[str, Factors]) -> dict[str, np.ndarray]:
    """The inverse of `give_out`, every name and shape checked."""
    known, arrays = {each.name: each for each in modules_of(model)}, {}
    for name, (down, up) in theirs.items():
        if name not in known:
            raise UserError(_unknown(name, model.config, known))
        module = known[name]
        _check_shapes(module, model.config, down, up)
        if module.part.change and family_of(model.config) == "gpt_neox":
            up = module.part.change(up)  # it has queries, keys and values head by head
        for matrix, (first, last) in module.rows.items():
            down_key, up_key = module.keys(matrix)
            arrays[down_key], arrays[up_key] = np.array(down), np.array(up[first:last], order="C")
    return arrays


def _unknown(name: str, config: Config, known: Mapping[str, Module]) -> str:
    if name.rpartition(".")[2] in {each.rpartition(".")[2] for each in known}:
        return f"the adapter updates '{name}', but this run has {config.num_layers} layers; it is for another model"
    some = ", ".join(dict.fromkeys(each.partition(".0.")[2] for each in known if ".0." in each))
    return f"the adapter updates '{name}', which is no matrix of this run that can have an update ({some})"


def _check_shapes(module: Module, config: Config, down: np.ndarray, up: np.ndarray) -> None:
    if down.ndim != 2 or up.ndim != 2 or len(down) != up.shape[1]:
        found = " and ".join(" x ".join(map(str, each.shape)) or "a number" for each in (down, up))
        raise UserError(f"A and B of '{module.name}' in the adapter are {found}, which do not fit together")
    if down.shape[1] != module.width:
        what = f"'{module.name}' reads vectors of {down.shape[1]} there and of {module.width} here"
        if module.width == config.width:
            what = f"the adapter is for a model of width {down.shape[1]}, and this run has {config.width}"
        raise UserError(f"{what}; name the run that it was made for")
    if len(up) != module.outputs:
        raise UserError(
            f"the adapter is for another model: '{module.name}' has {len(up)} outputs there and {module.outputs} here"
        )


def require_adapter(run: Run) -> Adapter:
    """The adapter of a run; a run without one, or of a model that no other program has, is refused."""
    profile_of(run.model)
    adapter = adapter_of(run)
    if adapter is None:
        raise UserError(
            f"'{run.path}' has no adapter, as it was not trained with --lora; huggingface and gguf export all of it"
        )
    return adapter


def base_model(run: Run, adapter: Adapter) -> tuple[Model, list[str]]:
    """The model that the adapter is for, with the tokens of this run's: that of the run it began from, or told from the
    weights of this one; and a note where it is that."""
    model, base = require_transformer(run.model), base_run(adapter)
    if base is not None and not added_tokens(run, adapter):
        return require_transformer(base.model), []
    found = with_updates(model, adapter.arrays, -adapter.settings.scale)
    name = adapter.base.name
    reason = (
        f"the run that it began from, '{name}', is not in {HOME}/ as it was" if base is None else "it has new tokens"
    )
    return found, [f"{reason}, so the weights of its base were computed from its own"]


def base_run(adapter: Adapter) -> Run | None:
    """The run in runs/ that the adapter began from, if it is still there."""
    base = find_base(adapter.base.name)
    return base if base is not None and Base.of(base) == adapter.base else None


def added_tokens(run: Run, adapter: Adapter) -> int:
    """How many tokens training has added to the vocabulary of the base; 0 where that is not in runs/."""
    base = base_run(adapter)
    return run.tokenizer.vocabulary_size - base.tokenizer.vocabulary_size if base is not None else 0


def with_updates(model: Model, arrays: Mapping[str, np.ndarray], scale: float) -> Model:
    """A copy of a model whose weights have updates added to them."""
    with torch.device("meta"):
        found = Model(model.config, model.vocabulary_size, model.eos)
    fill(found, {name: array.copy() for name, array in layout.arrays_of(model).items()})
    fold_arrays(found, arrays, scale)
    return found


def find_base(name: str) -> Run | None:
    """The run of this name in runs/; a path counts by its last part."""
    last = Path(name).name
    return Run(HOME / last) if last and (HOME / last / CONFIG).is_file() else None
