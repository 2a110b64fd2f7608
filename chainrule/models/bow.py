"""The bag-of-words model: the mean of all words so far predicts the next, whatever their order.

h = tanh(W' (1/i) Σⱼ φ(xⱼ) + b'), p(xᵢ₊₁ | x₁ ... xᵢ) = softmax(W'' h + b'')
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.checks import require_fractions, require_sizes
from chainrule.errors import UserError
from chainrule.layers.linear import Linear, linear
from chainrule.layers.roles import Role, declare
from chainrule.models._budgets import BAG, Settings, fit_budget
from chainrule.models._neural import NeuralModel
from chainrule.models._tanh_shares import share_out_tanh
from chainrule.models._unembedding import Unembedding
from chainrule.models.contract import State
from chainrule.models.explanation import Positions, TokenText


@dataclass(frozen=True)
class Config:
    width: int = 128  # of the vector of a word
    hidden_width: int = 256
    context_length: int = 64  # the more words a bag holds, the less the latest of them counts
    tied: bool = False  # whether W'' is the vectors of the words: softmax over φ(w) · h
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require_sizes(self, "width", "hidden_width", "context_length")
        require_fractions(self, "dropout")
        if self.tied and self.hidden_width != self.width:
            raise UserError(
                f"hidden_width must be the width, {self.width}, where the output is tied, got {self.hidden_width}; "
                "set tied=false"
            )


SIZES = {
    "tiny": Config(width=32, hidden_width=64),
    "small": Config(width=128, hidden_width=256),
    "medium": Config(width=256, hidden_width=512),
    "large": Config(width=512, hidden_width=1024, dropout=0.1),
}
DEFAULT_SIZE = "small"
DEFAULT_TOKENIZER = "bpe"

TIED_STD = 0.25  # of vectors at the start that are the output's weights, too; others have torch's 1.0


class Model(NeuralModel):
    """Its state is the sum of the vectors read so far and how many they are."""

    config: Config

    def __init__(self, config: Config, vocabulary_size: int, eos: int):
        super().__init__(config, vocabulary_size, eos)
        self.context_length = config.context_length
        self.embedding = declare(Role.TOKEN_TABLE, nn.Embedding(vocabulary_size, config.width))  # φ
        self.hidden = Linear(config.width, config.hidden_width)  # W' and b'
        self.unembedding = Unembedding(config.hidden_width, vocabulary_size, config.tied)  # W'' and b''
        self.dropout = nn.Dropout(config.dropout)
        if config.tied:
            nn.init.normal_(self.embedding.weight, std=TIED_STD)

    def hidden_layer(self) -> tuple[nn.Linear, str]:
        return self.hidden, "tanh"

    def start(self, batch_size: int, condition: object = None) -> State:
        weight = self.embedding.weight
        return weight.new_zeros(batch_size, self.config.width), weight.new_zeros(batch_size)

    def read(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State | None]:
        total, count = self.start(tokens.shape[0]) if state is None else state
        embedded = self.embedding(tokens)  # (batch, time, width)
        totals = total[:, None] + embedded.cumsum(1)
        counts = count[:, None] + torch.arange(1, tokens.shape[1] + 1, device=tokens.device)  # (batch, time)
        means = self.dropout(totals / counts[:, :, None])
        hidden = self.dropout(torch.tanh(self.hidden(means)))
        return hidden, None if state is None else (total + embedded.sum(1), count + tokens.shape[1])

    def output_layer(self) -> tuple[Tensor, Tensor | None]:
        return self.unembedding.layer(self.embedding.weight)

    def output(self, hidden: Tensor) -> Tensor:
        return linear(hidden, *self.output_layer())

    @torch.no_grad()
    def look_inside(self, ids: np.ndarray, token: int, token_text: TokenText) -> Positions:
        """What each word of the bag adds to the logit of `token`; all weigh the same."""
        count = len(ids)
        vectors = self.embedding(torch.from_numpy(np.asarray(ids, np.int64)))
        shares, at_rest = share_out_tanh(vectors / count @ self.hidden.weight.t(), self.hidden.bias)
        weight, bias = self.output_layer()
        assert bias is not None
        contributions = shares @ weight[token]  # (time,)
        constant = weight[token] @ at_rest + bias[token]
        logit = float(constant + contributions.sum())
        return Positions([[1 / count] * count], contributions.tolist(), float(constant), logit)


def for_budget(seconds: float, tokens: int, vocabulary_size: int) -> tuple[Config, Settings, list[str]]:
    return fit_budget(Config(), BAG, seconds, tokens, vocabulary_size)
