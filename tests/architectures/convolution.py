"""p(w | h) = softmax(V relu(K * e(h))): a causal convolution over the last few tokens.

An architecture of one file, as anyone may add one: tests put this folder beside chainrule/models, and it must then work
everywhere. Its modules have names that no other architecture has, so nothing can be found by name.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from chainrule.layers.roles import Role, declare
from chainrule.models._neural import NeuralModel


@dataclass(frozen=True)
class Config:
    width: int = 32
    reach: int = 3


SIZES = {"tiny": Config(width=16)}
DEFAULT_SIZE = "tiny"
DEFAULT_TOKENIZER = "bytes"


class Model(NeuralModel):
    def __init__(self, config: Config, vocabulary_size: int, eos: int):
        super().__init__(config, vocabulary_size, eos)
        self.receptive_field = config.reach
        self.words = declare(Role.TOKEN_TABLE, nn.Embedding(vocabulary_size, config.width))
        self.filters = nn.Conv1d(config.width, config.width, config.reach)
        self.squash = nn.ReLU()
        self.readout = declare(Role.OUTPUT, nn.Linear(config.width, vocabulary_size))

    def start(self, batch_size: int, condition: object = None) -> Tensor:
        return torch.full((batch_size, self.config.reach - 1), self.eos)

    def read(self, tokens: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor | None]:
        before = self.start(tokens.shape[0]) if state is None else state
        ids = torch.cat([before, tokens], 1)
        hidden = self.squash(self.filters(self.words(ids).transpose(1, 2)).transpose(1, 2))
        return hidden, None if state is None else ids[:, tokens.shape[1] :]

    def output(self, hidden: Tensor) -> Tensor:
        return self.readout(hidden)
