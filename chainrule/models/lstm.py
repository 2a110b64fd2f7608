"""The LSTM language model: what it remembers is kept apart, c_t = f ⊙ c_{t-1} + i ⊙ g, and show o ⊙ tanh(c_t)."""

from chainrule.layers.cells import LSTM
from chainrule.models import _budgets
from chainrule.models._recurrent import DEFAULT_SIZE as DEFAULT_SIZE
from chainrule.models._recurrent import DEFAULT_TOKENIZER as DEFAULT_TOKENIZER
from chainrule.models._recurrent import RecurrentConfig as Config
from chainrule.models._recurrent import RecurrentModel, sizes

SIZES = sizes(Config)


class Model(RecurrentModel):
    def make_cell(self, input_width: int, width: int, recurrent_dropout: float) -> LSTM:
        return LSTM(input_width, width, recurrent_dropout)


def for_budget(seconds: float, tokens: int, vocabulary_size: int) -> tuple[Config, dict[str, object], list[str]]:
    """One layer, tied, at a width that suits the time, with the settings of training that go with it."""
    shape, changes = _budgets.rung(_budgets.LSTM, seconds, tokens)
    config = Config(num_layers=1, input_scale=4.0, **shape)
    has_words = vocabulary_size > 4096
    recipe = {
        "sampled_softmax": 0.95 if has_words else 0.0,
        "first_vectors": "counted" if has_words else "random",
        "batch_size": 32,
        "learning_rate": 0.01,
        "matrix_learning_rate": 0.003,
        "beta2": 0.999,
        "weight_decay": 0.03,
        "clip": 1.0,
        **changes,
    }
    budget = f"{seconds:,.0f} seconds of two laptop cores and {tokens:,} tokens"
    return config, recipe, [f"one layer of width {config.width}: for {budget}"]
