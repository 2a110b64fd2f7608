"""The UGRNN language model: one gate G decides how much is kept, h_t = G ⊙ h_{t-1} + (1 - G) ⊙ R."""

from chainrule.layers.cells import UGRNN
from chainrule.models._budgets import Settings, fit_recurrent_budget, fit_recurrent_speed
from chainrule.models._recurrent import DEFAULT_SIZE as DEFAULT_SIZE
from chainrule.models._recurrent import DEFAULT_TOKENIZER as DEFAULT_TOKENIZER
from chainrule.models._recurrent import RecurrentConfig as Config
from chainrule.models._recurrent import RecurrentModel, sizes

SIZES = sizes(Config)


class Model(RecurrentModel):
    def make_cell(self, input_width: int, width: int, recurrent_dropout: float) -> UGRNN:
        return UGRNN(input_width, width, recurrent_dropout)


def for_budget(seconds: float, tokens: int, vocabulary_size: int) -> tuple[Config, Settings, list[str]]:
    return fit_recurrent_budget(Config(), UGRNN.gates, seconds, tokens, vocabulary_size)


def for_speed(
    config: Config, tokens_per_second: float, seconds: float, tokens: int, vocabulary_size: int
) -> tuple[Config, Settings, list[str]] | None:
    return fit_recurrent_speed(config, tokens_per_second, seconds, tokens)
