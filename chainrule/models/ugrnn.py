"""The UGRNN language model: one gate G decides how much is kept, h_t = G ⊙ h_{t-1} + (1 - G) ⊙ R."""

from dataclasses import dataclass

from chainrule.layers.cells import UGRNN
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
    def make_cell(self, input_width: int, width: int, recurrent_dropout: float) -> UGRNN:
        return UGRNN(input_width, width, recurrent_dropout)
