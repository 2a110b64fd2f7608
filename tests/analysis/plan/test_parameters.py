"""Counts by formula are the counts of models that torch builds, without memory, on its meta device."""

from typing import Any

import pytest
import torch

from chainrule.analysis.plan.parameters import Parameters, count_parameters
from chainrule.analysis.plan.planned_model import read_config
from chainrule.errors import UserError
from chainrule.models import transformer
from chainrule.models._presets import PUBLISHED

VARIATIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "swiglu": {"activation": "swiglu"},
    "swiglu, width no multiple of 3": {"activation": "swiglu", "width": 56},
    "swiglu with bias": {"activation": "swiglu", "bias": True},
    "grouped heads": {"num_key_value_heads": 2},
    "one head of keys": {"num_key_value_heads": 1, "bias": True},
    "wide heads": {"head_width": 32},
    "narrow heads": {"head_width": 6, "bias": True},
    "hidden width": {"hidden_width": 100},
    "tied": {"tied": True},
    "tied with an output bias": {"tied": True, "output_bias": True},
    "output bias": {"output_bias": True},
    "layer norm": {"norm": "layer", "bias": True},
    "layer norm without bias": {"norm": "layer", "bias": False},
    "post": {"norm_placement": "post"},
    "bias": {"bias": True},
    "biases of queries, keys and values": {"attention_bias": "queries", "num_key_value_heads": 2},
    "biases of attention": {"attention_bias": "all"},
    "side by side, partly turned": {"parallel": True, "rotary_fraction": 0.5},
    "qk norm": {"qk_norm": True, "num_key_value_heads": 2},
    "cap and dropout": {"logit_cap": 30.0, "dropout": 0.1},
    "hashed n-grams": {"ngram_order": 3, "ngram_rows": 128},
    "concatenated": {"positions": "learned", "position_join": "concatenate"},
    "concatenated sinusoids and n-grams": {
        "positions": "sinusoidal", "position_join": "concatenate", "ngram_order": 2, "ngram_rows": 64,
    },
    **{positions: {"positions": positions} for positions in transformer.positions.KINDS},
}  # fmt: skip


def built(config: transformer.Config, vocabulary_size: int) -> torch.nn.Module:
    with torch.device("meta"):
        return transformer.Model(config, vocabulary_size, 0)


def counted(config: transformer.Config, vocabulary_size: int) -> Parameters:
    return count_parameters(config, vocabulary_size)


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_preset_has_as_many_parameters_as_the_model_that_is_built(name: str):
    preset = PUBLISHED[name]
    config = preset.config
    model = built(config, preset.vocabulary_size)
    assert counted(config, preset.vocabulary_size).total == model.num_parameters


@pytest.mark.parametrize("changes", VARIATIONS.values(), ids=VARIATIONS)
def test_every_setting_that_changes_the_count_is_counted(changes: dict[str, Any]):
    config = transformer.Config(**{"width": 48, "num_layers": 3, "num_heads": 4, "context_length": 40, **changes})
    assert counted(config, 100).total == built(config, 100).num_parameters


@pytest.mark.parametrize("size", transformer.SIZES)
def test_every_size_is_counted(size: str):
    config = transformer.SIZES[size]
    assert counted(config, 1000).total == built(config, 1000).num_parameters


def test_parts_are_those_of_the_model():
    config = transformer.Config(width=48, num_heads=4, bias=True, positions="learned", ngram_order=2, ngram_rows=64)
    sizes: dict[str, int] = {}
    for name, parameter in built(config, 100).named_parameters():
        part = next(part for word, part in PARTS.items() if word in name)
        sizes[part] = sizes.get(part, 0) + parameter.numel()
    assert counted(config, 100).parts == sizes


PARTS = {
    "norm": "norms", "attention": "attention", "feedforward": "feedforward", "unembedding": "output",
    "embedding": "token_embedding", "ngrams": "ngram_embedding", "positions": "position_embedding",
}  # fmt: skip


def test_tables_that_are_only_looked_up_do_not_multiply():
    tied = transformer.Config(tied=True)
    untied = transformer.Config(tied=False, ngram_order=2, ngram_rows=64)
    assert counted(tied, 100).multiplied == counted(tied, 100).total == counted(untied, 100).multiplied


def test_settings_of_something_else_are_refused():
    with pytest.raises(UserError, match="do not describe a Transformer"):
        read_config({"order": 5})
