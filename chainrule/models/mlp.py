"""Bengio's neural model: a fixed number of words before, side by side, through one layer and past it.

x = [φ(w₍ᵢ₋₁₎); φ(w₍ᵢ₋₂₎); ...], y = b + W x + U tanh(d + H x), p(wᵢ | ...) = softmax(y). Bengio et al. 2003.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.checks import require_fractions, require_sizes
from chainrule.errors import UserError
from chainrule.layers.linear import Linear, linear
from chainrule.layers.roles import Role, declare
from chainrule.models._budgets import MLP, Settings, fit_budget
from chainrule.models._neural import NeuralModel
from chainrule.models._tanh_shares import share_out_tanh
from chainrule.models._unembedding import Unembedding
from chainrule.models.contract import State
from chainrule.models.explanation import Positions, TokenText


@dataclass(frozen=True)
class Config:
    order: int = 6  # as of an n-gram: the order - 1 words before predict the next
    width: int = 64  # of the vector of a word
    hidden_width: int = 256  # how many tanh units
    is_direct: bool = True  # whether W connects the words to the output past the tanh units
    tied: bool = False  # whether U is the vectors of the words: softmax over φ(w) · tanh(d + H x)
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.order < 2:
            raise UserError(f"order must be at least 2 (one word before), got {self.order}")
        require_sizes(self, "width", "hidden_width")
        require_fractions(self, "dropout")
        if self.tied and (self.is_direct or self.hidden_width != self.width):
            raise UserError(
                f"a tied output reads the tanh units alone, as many as the width, {self.width}, got hidden_width "
                f"{self.hidden_width} and is_direct {self.is_direct}; set is_direct=false and hidden_width={self.width}"
            )


SIZES = {
    "tiny": Config(order=4, width=16, hidden_width=64),
    "small": Config(order=6, width=32, hidden_width=256),
    "medium": Config(order=8, width=64, hidden_width=512),
    "large": Config(order=10, width=128, hidden_width=1024, dropout=0.1),
}
DEFAULT_SIZE = "small"
DEFAULT_TOKENIZER = "bpe"

EMBEDDING_STD = 0.1  # at the start; at torch's 1.0 the same steps learn less


class Model(NeuralModel):
    """Its state is the order - 2 words before the one it reads next; `none` stands where there is no word yet."""

    config: Config

    def __init__(self, config: Config, vocabulary_size: int, eos: int):
        super().__init__(config, vocabulary_size, eos)
        self.receptive_field = config.order - 1
        self.none = vocabulary_size  # the lecture's *, with a vector of its own
        joined = (config.order - 1) * config.width
        self.embedding = declare(Role.TOKEN_TABLE, nn.Embedding(vocabulary_size + 1, config.width))  # φ
        self.hidden = Linear(joined, config.hidden_width)  # H and d
        self.dropout = nn.Dropout(config.dropout)
        # U and W side by side, with b: one matrix product instead of two that fill a (batch, time, vocabulary) each
        read = config.hidden_width + (joined if config.is_direct else 0)
        self.unembedding = Unembedding(read, vocabulary_size, config.tied)
        nn.init.normal_(self.embedding.weight, std=EMBEDDING_STD)

    def hidden_layer(self) -> tuple[nn.Linear, str]:
        return self.hidden, "tanh"

    def start(self, batch_size: int, condition: object = None) -> State:
        return torch.full((batch_size, self.config.order - 2), self.none, device=self.device)

    def read(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State | None]:
        before = self.start(tokens.shape[0]) if state is None else state
        words = torch.cat([before, tokens], 1)  # (batch, order - 2 + time)
        time = tokens.shape[1]
        embedded = self.embedding(words)
        latest_first = [embedded[:, first : first + time] for first in reversed(range(self.config.order - 1))]
        x = self.dropout(torch.cat(latest_first, -1))  # (batch, time, (order - 1) * width)
        features = self.dropout(torch.tanh(self.hidden(x)))
        if self.config.is_direct:
            features = torch.cat([features, x], -1)
        return features, None if state is None else words[:, time:]

    def output_layer(self) -> tuple[Tensor, Tensor | None]:
        return self.unembedding.layer(self.embedding.weight)

    def output(self, hidden: Tensor) -> Tensor:
        return linear(hidden, *self.output_layer())

    @torch.no_grad()
    def look_inside(self, ids: np.ndarray, token: int, token_text: TokenText) -> Positions:
        """What each word before adds to the logit of `token`. Places before the text, which have a vector too, count
        for the constant."""
        reach, hidden_width = self.config.order - 1, self.config.hidden_width
        known = torch.from_numpy(np.asarray(ids[-reach:], np.int64))
        words = torch.full((reach,), self.none)
        words[reach - len(known) :] = known
        vectors = self.embedding(words.flip(0))  # (reach, width), the latest first, as the layers want them
        terms = torch.einsum("urw,rw->ru", self.hidden.weight.unflatten(1, (reach, -1)), vectors)
        shares, at_rest = share_out_tanh(terms, self.hidden.bias)  # (reach, hidden_width)
        weight, bias = self.output_layer()
        assert bias is not None
        output = weight[token, :hidden_width]
        each = shares @ output
        if self.config.is_direct:
            each = each + (weight[token, hidden_width:].view(reach, -1) * vectors).sum(-1)
        constant = output @ at_rest + bias[token] + each[len(known) :].sum()
        contributions = np.zeros(len(ids))
        contributions[len(ids) - len(known) :] = each[: len(known)].flip(0).numpy()
        return Positions([], contributions.tolist(), float(constant), float(constant + contributions.sum()))


def for_budget(seconds: float, tokens: int, vocabulary_size: int) -> tuple[Config, Settings, list[str]]:
    return fit_budget(Config(), MLP, seconds, tokens, vocabulary_size)
