"""Fills a Transformer with weights from other programs' files, every tensor and setting checked."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch

from chainrule.errors import UserError
from chainrule.interop._chat_template import chat_notes
from chainrule.interop._layout import Part, take_in
from chainrule.models._neural import NeuralModel
from chainrule.models.transformer import Config, Model
from chainrule.text.base import Tokenizer

Settings = Mapping[str, object]  # of a model, as other programs write them


@dataclass(frozen=True)
class LoadedTransformer:
    """A Transformer with its weights, its tokenizer, and notes for people."""

    model: Model
    tokenizer: Tokenizer
    notes: list[str] = field(default_factory=list)


def build(
    config: Config,
    layout: Callable[[Config], list[Part]],
    theirs: dict[str, np.ndarray],
    tokenizer: Tokenizer,
    vocabulary_size: int,
) -> LoadedTransformer:
    """A model with these weights, each checked. Rows that stand for no token of the tokenizer are dropped."""
    notes = chat_notes(tokenizer.chat)
    if config.num_layers > len(theirs):  # before memory is taken for them
        raise UserError(f"the settings ask for {config.num_layers:,} layers, but the files hold {len(theirs)} tensors")
    if tokenizer.vocabulary_size > vocabulary_size:
        found = f"the tokenizer has {tokenizer.vocabulary_size:,} tokens but the model {vocabulary_size:,}"
        raise UserError(f"{found}; they do not belong together")
    places = config.context_length if config.positions == "learned" else 1
    heads = config.num_heads * config.width_of_head
    refuse_sizes(config.width, (vocabulary_size, places, heads, config.width_of_feedforward), theirs)
    with torch.device("meta"):  # no memory: the weights come from the file
        whole = Model(config, vocabulary_size, tokenizer.eos)
    shapes = {name: tuple(tensor.shape) for name, tensor in whole.state_dict().items()}
    ours = take_in(layout(config), theirs, shapes)
    if tokenizer.vocabulary_size < vocabulary_size:
        for name in ("embedding.weight", "unembedding.weight"):
            if name in ours:
                ours[name] = ours[name][: tokenizer.vocabulary_size].copy()
        left = vocabulary_size - tokenizer.vocabulary_size
        notes.append(
            f"{left:,} of the model's {vocabulary_size:,} tokens are padding that no text has; they are left out"
        )
    with torch.device("meta"):
        model = Model(config, tokenizer.vocabulary_size, tokenizer.eos)
    fill(model, ours)
    return LoadedTransformer(model, tokenizer, notes)


def refuse_sizes(width: int, rows: Iterable[int], theirs: Mapping[str, np.ndarray]) -> None:
    """Refuse settings whose largest matrix has more numbers than the files hold, before memory is taken for it."""
    held = sum(array.size for array in theirs.values())
    if width * max(rows) > held:
        raise UserError(f"the settings ask for {max(rows):,} x {width:,} numbers, but the files hold {held:,} in all")


def fill(model: NeuralModel, ours: dict[str, np.ndarray]) -> None:
    """Give a model on torch's meta device its weights."""
    model.load_state_dict({name: torch.from_numpy(array) for name, array in ours.items()}, assign=True)
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    model.eval()


def require(settings: Settings, name: str, allowed: Collection[object], default: object = None) -> None:
    """Refuse a setting with a value that changes what the model computes in a way not built here."""
    value = settings.get(name, default)
    if value not in allowed:
        shown = " or ".join(str(each) for each in allowed)
        raise UserError(f"'{name}' is {value!r} in the model's settings; only {shown} is supported")


def whole(settings: Settings, name: str, default: int | None = None) -> int:
    """A setting that must be a whole number above zero."""
    value = settings.get(name)
    value = default if value is None else value
    if type(value) is not int or not 0 < value < 1 << 31:
        raise UserError(f"'{name}' in the model's settings must be a whole number above zero, got {value!r}")
    return value


def flag(settings: Settings, name: str, default: bool) -> bool:
    """A setting that must be true or false."""
    value = settings.get(name)
    value = default if value is None else value
    if not isinstance(value, bool):
        raise UserError(f"'{name}' in the model's settings must be true or false, got {value!r}")
    return value


def real(settings: Settings, name: str, default: float) -> float:
    """A setting that must be a number above zero."""
    value = settings.get(name)
    value = default if value is None else value
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e30:
        raise UserError(f"'{name}' in the model's settings must be a number above zero, got {value!r}")
    return float(value)
