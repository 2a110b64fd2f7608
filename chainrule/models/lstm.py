"""The LSTM language model: what it remembers is kept apart, c_t = f ⊙ c_{t-1} + i ⊙ g, and show o ⊙ tanh(c_t)."""

from chainrule.layers.cells import LSTM
from chainrule.models._budgets import Settings, fit_recurrent_budget, fit_recurrent_speed
from chainrule.models._recurrent import DEFAULT_SIZE as DEFAULT_SIZE
from chainrule.models._recurrent import DEFAULT_TOKENIZER as DEFAULT_TOKENIZER
from chainrule.models._recurrent import RecurrentConfig as Config
from chainrule.models._recurrent import RecurrentModel, sizes

SIZES = sizes(Config)


class Model(RecurrentModel):
    def make_cell(self, input_width: int, width: int, recurrent_dropout: float) -> LSTM:
        return LSTM(input_width, width, recurrent_dropout)


def for_budget(seconds: float, tokens: int, vocabulary_size: int) -> tuple[Config, Settings, list[str]]:
    return fit_recurrent_budget(Config(), LSTM.gates, seconds, tokens, vocabulary_size)


def for_speed(
    config: Config, tokens_per_second: float, seconds: float, tokens: int, vocabulary_size: int
) -> tuple[Config, Settings, list[str]] | None:
    return fit_recurrent_speed(config, tokens_per_second, seconds, tokens)
