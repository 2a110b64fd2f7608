"""What the recurrent language models share: words are embedded, a stack of cells reads them, softmax(W h + b) predicts.

They differ in the cell. Embeddings start normal, of deviation 0.5 and about 8 long at most: large enough that the gates
hear them, small enough that tied predictions begin near to uniform. (±0.1, as in many papers, learned far slower.)
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.checks import require_fractions, require_sizes
from chainrule.errors import UserError
from chainrule.layers.cells import Cell
from chainrule.layers.linear import linear
from chainrule.layers.recurrent import Recurrent, State
from chainrule.layers.roles import Role, declare
from chainrule.models._gates import gated_layer, within
from chainrule.models._neural import NeuralModel
from chainrule.models._recorded import read_recorded
from chainrule.models._token_gradients import token_gradients
from chainrule.models.explanation import Gates, TokenText


@dataclass(frozen=True)
class RecurrentConfig:
    width: int = 200
    num_layers: int = 2
    embedding_width: int | None = None  # None: as wide as the layers
    input_scale: float = 1.0  # what embeddings are multiplied by on their way in; tied ones start so much smaller
    tied: bool = True  # whether the embeddings are also the output weights: softmax over e(w) · h
    residual: bool = False  # whether each layer after the first adds to what it reads
    input_dropout: float = 0.0  # on the embedded words
    dropout: float = 0.0  # on the outputs of every layer
    recurrent_dropout: float = 0.0  # on the weights from one step to the next

    def __post_init__(self) -> None:
        require_sizes(self, "width", "num_layers", "embedding_width")
        require_fractions(self, "input_dropout", "dropout", "recurrent_dropout")
        if not self.input_scale > 0:
            raise UserError(f"input_scale must be above zero, got {self.input_scale}")
        if self.tied and self.embedding_width not in (None, self.width):
            raise UserError(
                f"embedding_width must be the width, {self.width}, where embeddings are tied, got "
                f"{self.embedding_width}; leave it out or set tied=false"
            )


C = TypeVar("C", bound=RecurrentConfig)
DEFAULT_SIZE = "small"
DEFAULT_TOKENIZER = "bpe"


def sizes(config: type[C]) -> dict[str, C]:
    """As in Zaremba et al. 2014, who also drop out 0.5 (medium) and 0.65 (large) to read a small text many times."""
    widths = {"tiny": 32, "small": 200, "medium": 650, "large": 1500}
    return {name: config(width=width, num_layers=2) for name, width in widths.items()}


def _deviation(width: int, scale: float) -> float:
    """Of embeddings at the start. Scaled ones are 0.2 on their way in, and small where they are the output."""
    return min(0.5, 8 * width**-0.5) if scale == 1 else 0.2 / scale


class RecurrentModel(NeuralModel):
    """A state is a tuple of one entry per layer: (h,), or (h, c) for an LSTM; (batch, width) each."""

    carries_state = True
    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig, vocabulary_size: int, eos: int):
        super().__init__(config, vocabulary_size, eos)
        embedding_width = config.embedding_width or config.width
        self.embedding = declare(Role.TOKEN_TABLE, nn.Embedding(vocabulary_size, embedding_width))
        self.recurrent = Recurrent(
            self.make_cell,
            embedding_width,
            config.width,
            config.num_layers,
            residual=config.residual,
            input_dropout=config.input_dropout,
            dropout=config.dropout,
            recurrent_dropout=config.recurrent_dropout,
        )
        self.unembedding: nn.Parameter | None = None
        if not config.tied:
            self.unembedding = declare(Role.OUTPUT, nn.Parameter(torch.empty(vocabulary_size, config.width)))
        self.output_bias = declare(Role.OUTPUT_BIAS, nn.Parameter(torch.zeros(vocabulary_size)))
        nn.init.normal_(self.embedding.weight, std=_deviation(embedding_width, config.input_scale))
        if self.unembedding is not None:
            nn.init.normal_(self.unembedding, std=config.width**-0.5)

    def make_cell(self, input_width: int, width: int, recurrent_dropout: float) -> Cell:
        raise NotImplementedError

    def matrix_parts(self, name: str) -> int:
        return int(self.recurrent.cells[0].gates) if name.startswith("recurrent.") else 1  # type: ignore[arg-type]

    def start(self, batch_size: int, condition: object = None) -> State:
        return self.recurrent.start(batch_size)

    def read(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State]:
        embedded = self.embedding(tokens.t())  # (time, batch, embedding width): the order that the cells read in
        if self.config.input_scale != 1:
            embedded = embedded * self.config.input_scale
        hidden, state = self.recurrent(embedded.transpose(0, 1), state)
        return hidden, state

    def output_layer(self) -> tuple[Tensor, Tensor]:
        return self.embedding.weight if self.unembedding is None else self.unembedding, self.output_bias

    def output(self, hidden: Tensor) -> Tensor:
        return linear(hidden, *self.output_layer())

    def look_inside(self, ids: np.ndarray, token: int, token_text: TokenText) -> Gates:
        """Every gate and state of every layer at every token, and how far back tokens have influence on `token`."""
        _, calls = read_recorded(self, ids)
        layers = []
        for cell in self.recurrent.cells:
            assert isinstance(cell, Cell)
            inputs, state = calls[cell].arguments[:2]
            layers.append(gated_layer(cell, inputs, state, calls[cell].output[0]))
        influence = token_gradients(self, ids, token)[0].slope.norm(dim=-1).numpy()
        return Gates(layers, influence.tolist(), within(influence, 0.5), within(influence, 0.9))
