"""Attention of a decoder over the output m of an encoder: α_j = softmax_j(score(q, m_j)), and the context Σ_j α_j m_j.

Additive: score = vᵀ tanh(W q + U m_j) (Bahdanau et al., 2014). Dot: score = (W q) · m_j ("general" in Luong et al.,
2015). Cross: the Transformer's, several heads of q · k / √d (Vaswani et al., 2017). The keys and values of a source are
computed once, by `project_source`, however many target tokens follow.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.layers.encoder_output import EncoderOutput

PLACES_AT_ONCE = 1 << 22  # numbers of the additive score that are in memory at one time


class AdditiveAttention(nn.Module):
    def __init__(self, query_width: int, source_width: int, width: int):
        super().__init__()
        self.query = nn.Linear(query_width, width)
        self.key = nn.Linear(source_width, width, bias=False)
        self.score = nn.Parameter(torch.empty(width).uniform_(-(width**-0.5), width**-0.5))

    def project_source(self, source: Tensor) -> tuple[Tensor, Tensor]:
        return self.key(source), source

    def weights(self, query: Tensor, source: EncoderOutput) -> Tensor:
        """query (rows, time, width) -> α (rows, time, places)."""
        keys = source.tensors[0]
        asked = self.query(query)
        rows = max(1, PLACES_AT_ONCE // max(1, asked.shape[1] * keys.shape[1] * keys.shape[2]))
        scores = [
            torch.tanh(some[:, :, None] + each[:, None]) @ self.score
            for some, each in zip(asked.split(rows), keys.split(rows), strict=True)
        ]
        return (torch.cat(scores) + source.bias).softmax(-1)

    def forward(self, query: Tensor, source: EncoderOutput) -> Tensor:
        """query (rows, time, width) -> the contexts Σ_j α_j m_j, (rows, time, source width)."""
        return self.weights(query, source) @ source.tensors[1]


class DotAttention(nn.Module):
    def __init__(self, query_width: int, source_width: int):
        super().__init__()
        self.query = nn.Linear(query_width, source_width, bias=False)

    def project_source(self, source: Tensor) -> tuple[Tensor, Tensor]:
        return source, source

    def weights(self, query: Tensor, source: EncoderOutput) -> Tensor:
        return (self.query(query) @ source.tensors[0].transpose(1, 2) + source.bias).softmax(-1)

    def forward(self, query: Tensor, source: EncoderOutput) -> Tensor:
        return self.weights(query, source) @ source.tensors[1]


class CrossAttention(nn.Module):
    """The cross-attention of one Transformer block; keys and values have all heads side by side."""

    def __init__(self, width: int, num_heads: int, source_width: int, bias: bool = False):
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(width, width, bias)
        self.key_value = nn.Linear(source_width, 2 * width, bias)
        self.output = nn.Linear(width, width, bias)

    def project_source(self, source: Tensor) -> tuple[Tensor, Tensor]:
        key, value = self.key_value(source).chunk(2, -1)
        return key, value

    def forward(self, x: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
        """x (rows, time, width), key and value (rows, places, width), bias (rows, 1, 1, places) -> the shape of x."""
        query, keys, values = (self._split(each) for each in (self.query(x), key, value))
        mixed = F.scaled_dot_product_attention(query, keys, values, attn_mask=bias)
        attended: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return attended

    def weights(self, x: Tensor, key: Tensor, bias: Tensor) -> Tensor:
        """α of every head: (rows, heads, time, places)."""
        query, keys = self._split(self.query(x)), self._split(key)
        scores: Tensor = query @ keys.transpose(2, 3) * query.shape[-1] ** -0.5 + bias
        return scores.softmax(-1)

    def _split(self, x: Tensor) -> Tensor:
        heads: Tensor = x.unflatten(2, (self.num_heads, -1))
        return heads.transpose(1, 2)
