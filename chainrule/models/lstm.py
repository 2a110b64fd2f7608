"""The LSTM language model: cells that keep what they remember apart, c_t = f ⊙ c_{t-1} + i ⊙ g, and show o ⊙ tanh(c_t).

Sizes as in Zaremba et al. 2014, who also drop out 0.5 (medium) and 0.65 (large) to read a small text many times.
"""

from dataclasses import dataclass
from typing import Any

from chainrule.layers.cells import LSTM
from chainrule.models._budgets import LSTM as LSTM_BUDGETS
from chainrule.models._budgets import rung
from chainrule.models._recurrent import RecurrentConfig, RecurrentModel


@dataclass(frozen=True)
class Config(RecurrentConfig):
    """The settings that all recurrent models have."""


SIZES = {
    "tiny": Config(width=32, num_layers=2),
    "small": Config(width=200, num_layers=2),
    "medium": Config(width=650, num_layers=2),
    "large": Config(width=1500, num_layers=2),
}
DEFAULT_SIZE = "small"
DEFAULT_TOKENIZER = "bpe"


class Model(RecurrentModel):
    def make_cell(self, input_width: int, width: int, recurrent_dropout: float) -> LSTM:
        return LSTM(input_width, width, recurrent_dropout)


def for_budget(seconds: float, tokens: int, vocabulary_size: int) -> tuple[Config, dict[str, Any], list[str]]:
    """One layer, tied, at a width that suits the time, with the settings of training that go with it."""
    shape, changes = rung(LSTM_BUDGETS, seconds, tokens)
    config = Config(num_layers=1, input_scale=4.0, **shape)
    recipe = {
        "sampled_softmax": 0.95 if vocabulary_size > 4096 else 0.0,
        "clip": 1.0,
        **changes,
    }
    budget = f"{seconds:,.0f} seconds of two laptop cores and {tokens:,} tokens"
    return config, recipe, [f"one layer of width {config.width}: for {budget}"]
