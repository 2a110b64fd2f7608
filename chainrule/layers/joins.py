"""How a decoder looks at what an encoder wrote: α = softmax over the places of the source, and the sum of values by α.

Additive: score = vᵀ tanh(W q + U m_j) (Bahdanau et al., 2014). Dot: score = (W q) · m_j, as in the lecture. Cross: the
Transformer's, several heads of q · k / √d side by side. Keys and values of the source are made once, by `remember`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.layers.encoder_output import Memory

PLACES_AT_ONCE = 1 << 22  # numbers of the additive score that are held at one time


class AdditiveAttention(nn.Module):
    def __init__(self, query_width: int, memory_width: int, width: int):
        super().__init__()
        self.query = nn.Linear(query_width, width)
        self.key = nn.Linear(memory_width, width, bias=False)
        self.score = nn.Parameter(torch.empty(width).uniform_(-(width**-0.5), width**-0.5))

    def remember(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        return self.key(memory), memory

    def weights(self, query: Tensor, memory: Memory) -> Tensor:
        """query (rows, time, width) -> α (rows, time, places)."""
        keys = memory.tensors[0]
        asked = self.query(query)
        rows = max(1, PLACES_AT_ONCE // max(1, asked.shape[1] * keys.shape[1] * keys.shape[2]))
        scores = [
            torch.tanh(some[:, :, None] + each[:, None]) @ self.score
            for some, each in zip(asked.split(rows), keys.split(rows), strict=True)
        ]
        return (torch.cat(scores) + memory.bias).softmax(-1)

    def forward(self, query: Tensor, memory: Memory) -> Tensor:
        """What is seen: (rows, time, memory width)."""
        return self.weights(query, memory) @ memory.tensors[1]


class DotAttention(nn.Module):
    def __init__(self, query_width: int, memory_width: int):
        super().__init__()
        self.query = nn.Linear(query_width, memory_width, bias=False)

    def remember(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        return memory, memory

    def weights(self, query: Tensor, memory: Memory) -> Tensor:
        scores: Tensor = self.query(query) @ memory.tensors[0].transpose(1, 2) + memory.bias
        return scores.softmax(-1)

    def forward(self, query: Tensor, memory: Memory) -> Tensor:
        return self.weights(query, memory) @ memory.tensors[1]


class CrossAttention(nn.Module):
    """Of a Transformer block. Its memory holds the keys and values of one layer, all heads side by side."""

    def __init__(self, width: int, num_heads: int, memory_width: int, bias: bool = False):
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(width, width, bias)
        self.key_value = nn.Linear(memory_width, 2 * width, bias)
        self.output = nn.Linear(width, width, bias)

    def remember(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        key, value = self.key_value(memory).chunk(2, -1)
        return key, value

    def forward(self, x: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
        """x (rows, time, width), key and value (rows, places, width), bias (rows, 1, 1, places)."""
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
