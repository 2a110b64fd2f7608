"""The Elman network as a language model: h_t = σ(W_h h_{t-1} + W_x x_t + b), y_t = softmax(W_y h_t + b_y)."""

from dataclasses import dataclass

from chainrule.checks import require_choice
from chainrule.layers.cells import NONLINEARITIES, Elman
from chainrule.models._budgets import Settings, fit_recurrent_budget, fit_recurrent_speed
from chainrule.models._recurrent import DEFAULT_SIZE as DEFAULT_SIZE
from chainrule.models._recurrent import DEFAULT_TOKENIZER as DEFAULT_TOKENIZER
from chainrule.models._recurrent import RecurrentConfig, RecurrentModel, sizes


@dataclass(frozen=True)
class Config(RecurrentConfig):
    nonlinearity: str = "tanh"  # σ: logistic, tanh or relu

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("nonlinearity", self.nonlinearity, NONLINEARITIES)


SIZES = sizes(Config)


class Model(RecurrentModel):
    config: Config

    def make_cell(self, input_width: int, width: int, recurrent_dropout: float) -> Elman:
        return Elman(input_width, width, recurrent_dropout, self.config.nonlinearity)


def for_budget(seconds: float, tokens: int, vocabulary_size: int) -> tuple[Config, Settings, list[str]]:
    return fit_recurrent_budget(Config(), Elman.gates, seconds, tokens, vocabulary_size)


def for_speed(
    config: Config, tokens_per_second: float, seconds: float, tokens: int, vocabulary_size: int
) -> tuple[Config, Settings, list[str]] | None:
    return fit_recurrent_speed(config, tokens_per_second, seconds, tokens)
