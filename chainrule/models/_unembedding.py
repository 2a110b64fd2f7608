"""From hidden vectors to logits, W h + b: W is a matrix of its own or, tied, the embeddings of the tokens."""

import torch
from torch import Tensor, nn

from chainrule.layers.roles import Role, declare


class Unembedding(nn.Module):
    """Its bias starts at the log frequencies of the tokens (`set_output_bias`), so that no step is spent on them."""

    def __init__(self, width: int, vocabulary_size: int, is_tied: bool = False, has_bias: bool = True):
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.weight: nn.Parameter | None = None
        self.bias: nn.Parameter | None = None
        if not is_tied:
            self.weight = declare(Role.OUTPUT, nn.Parameter(torch.empty(vocabulary_size, width)))
            nn.init.kaiming_uniform_(self.weight, a=5**0.5)  # as torch's Linear
        if has_bias:
            self.bias = declare(Role.OUTPUT_BIAS, nn.Parameter(torch.zeros(vocabulary_size)))

    def layer(self, embeddings: Tensor) -> tuple[Tensor, Tensor | None]:
        """The matrix (vocabulary, width) and the bias, where the tokens that are read have these embeddings; rows
        beyond the vocabulary, of what can be read but not predicted, are left out."""
        weight: Tensor | None = self.weight
        if weight is None:
            weight = embeddings if len(embeddings) == self.vocabulary_size else embeddings[: self.vocabulary_size]
        return weight, self.bias
