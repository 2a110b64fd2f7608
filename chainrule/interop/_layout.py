"""The names and layouts of a Transformer's tensors in other programs; the same tables serve import and export.

A tensor of ours is one of theirs, or several of theirs stacked. GPT-2 stores its matrices (in, out), GPT-NeoX its
queries, keys and values head by head.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from chainrule.errors import UserError
from chainrule.models._neural import NeuralModel
from chainrule.models._transformer_config import Config

Tensors = dict[str, np.ndarray]


@dataclass(frozen=True)
class Part:
    """One tensor of ours and the tensors of theirs that it is a stack of."""

    ours: str
    theirs: tuple[str, ...]
    rows: tuple[int, ...] | None = None  # how many rows each of theirs has, where there are several
    change: Callable[[np.ndarray], np.ndarray] | None = None  # from their layout to ours
    undo: Callable[[np.ndarray], np.ndarray] | None = None  # from ours to theirs


def _transpose(array: np.ndarray) -> np.ndarray:
    return array.T


def gpt2(config: Config) -> list[Part]:
    """GPT-2's names; matrices are stored (in, out)."""
    parts = [
        Part("embedding.weight", ("transformer.wte.weight",)),
        Part("positions.weight", ("transformer.wpe.weight",)),
        Part("norm.weight", ("transformer.ln_f.weight",)),
        Part("norm.bias", ("transformer.ln_f.bias",)),
    ]
    names = {
        "attention_norm": "ln_1", "feedforward_norm": "ln_2", "attention.query_key_value": "attn.c_attn",
        "attention.output": "attn.c_proj", "feedforward.input": "mlp.c_fc", "feedforward.output": "mlp.c_proj",
    }  # fmt: skip
    for layer in range(config.num_layers):
        for ours, theirs in names.items():
            stem, there = f"blocks.{layer}.{ours}", f"transformer.h.{layer}.{theirs}"
            is_matrix = not ours.endswith("norm")
            transpose = _transpose if is_matrix else None
            parts += [Part(f"{stem}.weight", (f"{there}.weight",), None, transpose, transpose)]
            parts += [Part(f"{stem}.bias", (f"{there}.bias",))]
    if not config.tied:
        parts.append(Part("unembedding.weight", ("lm_head.weight",)))
    return parts


def llama(config: Config) -> list[Part]:
    """Llama's names, which Qwen, SmolLM and Mistral have too."""
    heads, shared, width = config.num_heads, config.key_value_heads, config.width_of_head
    rows = (heads * width, shared * width, shared * width)
    hidden = config.width_of_feedforward
    parts = [Part("embedding.weight", ("model.embed_tokens.weight",)), Part("norm.weight", ("model.norm.weight",))]
    for layer in range(config.num_layers):
        stem, there = f"blocks.{layer}", f"model.layers.{layer}"
        projections = tuple(f"{there}.self_attn.{name}_proj" for name in "qkv")
        gates = (f"{there}.mlp.gate_proj.weight", f"{there}.mlp.up_proj.weight")
        parts += [
            Part(f"{stem}.attention_norm.weight", (f"{there}.input_layernorm.weight",)),
            Part(f"{stem}.feedforward_norm.weight", (f"{there}.post_attention_layernorm.weight",)),
            Part(f"{stem}.attention.query_key_value.weight", tuple(f"{each}.weight" for each in projections), rows),
            Part(f"{stem}.attention.output.weight", (f"{there}.self_attn.o_proj.weight",)),
            Part(f"{stem}.feedforward.input.weight", gates, (hidden, hidden)),
            Part(f"{stem}.feedforward.output.weight", (f"{there}.mlp.down_proj.weight",)),
        ]
        if config.has_query_bias:
            parts.append(Part(f"{stem}.attention.query_key_value.bias", tuple(f"{p}.bias" for p in projections), rows))
        if config.has_attention_output_bias:
            parts.append(Part(f"{stem}.attention.output.bias", (f"{there}.self_attn.o_proj.bias",)))
        if config.qk_norm:
            parts += [
                Part(f"{stem}.attention.query_norm.weight", (f"{there}.self_attn.q_norm.weight",)),
                Part(f"{stem}.attention.key_norm.weight", (f"{there}.self_attn.k_norm.weight",)),
            ]
    if not config.tied:
        parts.append(Part("unembedding.weight", ("lm_head.weight",)))
    return parts


def neox(config: Config) -> list[Part]:
    """The names of GPT-NeoX and Pythia; query, key and value of a head are stored one after the other."""
    heads, width = config.num_heads, config.width_of_head

    def gather(array: np.ndarray) -> np.ndarray:
        return array.reshape(heads, 3, width, -1).swapaxes(0, 1).reshape(array.shape)

    parts = [
        Part("embedding.weight", ("gpt_neox.embed_in.weight",)),
        Part("norm.weight", ("gpt_neox.final_layer_norm.weight",)),
        Part("norm.bias", ("gpt_neox.final_layer_norm.bias",)),
    ]
    names = {
        "attention_norm": "input_layernorm", "feedforward_norm": "post_attention_layernorm",
        "attention.output": "attention.dense", "feedforward.input": "mlp.dense_h_to_4h",
        "feedforward.output": "mlp.dense_4h_to_h", "attention.query_key_value": "attention.query_key_value",
    }  # fmt: skip
    for layer in range(config.num_layers):
        for (ours, theirs), kind in ((pair, kind) for pair in names.items() for kind in ("weight", "bias")):
            change = gather if ours.endswith("query_key_value") else None  # it is only imported
            there = f"gpt_neox.layers.{layer}.{theirs}.{kind}"
            parts.append(Part(f"blocks.{layer}.{ours}.{kind}", (there,), None, change))
    if not config.tied:
        parts.append(Part("unembedding.weight", ("embed_out.weight",)))
    return parts


def halves(matrix: np.ndarray, heads: int) -> np.ndarray:
    """The rows of each head reordered from neighbouring pairs to halves: x₀ x₁ x₂ x₃ -> x₀ x₂ x₁ x₃."""
    if len(matrix) % (2 * heads):
        raise UserError(f"a tensor of queries or keys has {len(matrix)} rows, which are no pairs of {heads} heads")
    rows = matrix.reshape(heads, -1, 2, *matrix.shape[1:])  # (heads, pairs, 2, ...)
    return rows.swapaxes(1, 2).reshape(matrix.shape)


def pairs(matrix: np.ndarray, heads: int) -> np.ndarray:
    """The inverse of `halves`."""
    rows = matrix.reshape(heads, 2, -1, *matrix.shape[1:])
    return rows.swapaxes(1, 2).reshape(matrix.shape)


def take_in(parts: list[Part], theirs: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]) -> Tensors:
    """Our tensors made of theirs; every name and shape is checked, and tensors beyond these are refused."""
    asked = [name for part in parts for name in part.theirs]
    _refuse_names(asked, theirs)
    ours: Tensors = {}
    for part in parts:
        given = [np.asarray(theirs[name]) for name in part.theirs]
        for name, array in zip(part.theirs, given, strict=True):
            if array.dtype.kind != "f":
                raise UserError(f"the tensor '{name}' is of type {array.dtype}; weights must be floating-point numbers")
        if part.rows is not None:
            for name, array, rows in zip(part.theirs, given, part.rows, strict=True):
                if array.ndim == 0 or array.shape[0] != rows:
                    raise UserError(f"the tensor '{name}' is {_shape(array.shape)}; the settings ask for {rows} rows")
        expected = shapes[part.ours]
        if part.change and given[0].size != prod(expected):  # then the layout cannot be changed
            found = f"the tensor '{part.theirs[0]}' is {_shape(given[0].shape)}"
            raise UserError(f"{found}; the settings ask for {prod(expected):,} numbers")
        given = [part.change(array) if part.change else array for array in given]
        joined = given[0] if len(given) == 1 else _stack(part, given)
        if joined.shape != expected:
            names = " and ".join(f"'{name}'" for name in part.theirs)
            raise UserError(f"{names} are {_shape(joined.shape)} together; the settings ask for {_shape(expected)}")
        ours[part.ours] = np.array(joined, np.float32, order="C")  # a copy: the file is memory-mapped
        if not np.isfinite(ours[part.ours]).all():
            raise UserError(f"'{part.theirs[0]}' has numbers that are not finite; download the weights again")
    return ours


def arrays_of(model: NeuralModel) -> Tensors:
    """Every tensor of a model as a NumPy array that shares its memory."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}


def give_out(parts: list[Part], ours: Mapping[str, np.ndarray]) -> Tensors:
    """Their tensors made of ours: the inverse of `take_in`."""
    theirs: Tensors = {}
    for part in parts:
        array = ours[part.ours]
        pieces = [array] if part.rows is None else np.split(array, np.cumsum(part.rows)[:-1])
        for name, piece in zip(part.theirs, pieces, strict=True):
            theirs[name] = np.ascontiguousarray(part.undo(piece) if part.undo else piece)
    return theirs


def _stack(part: Part, given: list[np.ndarray]) -> np.ndarray:
    if len({array.shape[1:] for array in given}) > 1:
        found = ", ".join(f"'{name}' {_shape(array.shape)}" for name, array in zip(part.theirs, given, strict=True))
        raise UserError(f"tensors that belong together differ in width: {found}")
    return np.concatenate(given)


def _refuse_names(asked: list[str], theirs: Mapping[str, np.ndarray]) -> None:
    missing = [name for name in asked if name not in theirs]
    left = sorted(set(theirs) - set(asked))
    if missing:
        raise UserError(f"{_count(missing, 'tensor')} of this architecture {_are(missing)} missing: {_some(missing)}")
    if left:
        raise UserError(
            f"{_count(left, 'tensor')} {_are(left)} not of the architecture that the settings describe: {_some(left)}"
        )


def _count(names: list[str], noun: str) -> str:
    return f"{len(names)} {noun}{'' if len(names) == 1 else 's'}"


def _are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _some(names: list[str]) -> str:
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "a single number"
