"""The Elman network as a language model: h_t = σ(W_h h_{t-1} + W_x x_t + b), y_t = softmax(W_y h_t + b_y)."""

from dataclasses import dataclass

from chainrule.errors import UserError, did_you_mean
from chainrule.layers.cells import NONLINEARITIES, Elman
from chainrule.models._recurrent import RecurrentConfig, RecurrentModel


@dataclass(frozen=True)
class Config(RecurrentConfig):
    nonlinearity: str = "tanh"  # σ: logistic, tanh or relu

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nonlinearity not in NONLINEARITIES:
            hint = did_you_mean(self.nonlinearity, NONLINEARITIES)
            raise UserError(f"nonlinearity must be logistic, tanh or relu, got '{self.nonlinearity}'{hint}")


SIZES = {
    "tiny": Config(width=32, num_layers=2),
    "small": Config(width=200, num_layers=2),
    "medium": Config(width=650, num_layers=2),
    "large": Config(width=1500, num_layers=2),
}
DEFAULT_SIZE = "small"
DEFAULT_TOKENIZER = "bpe"


class Model(RecurrentModel):
    def make_cell(self, input_width: int, width: int, recurrent_dropout: float) -> Elman:
        return Elman(input_width, width, recurrent_dropout, self.config.nonlinearity)
