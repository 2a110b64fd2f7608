"""Multi-head causal self-attention: softmax(q·k/√d + mask) v for each head, side by side.

Several query heads may share one head of keys and values (grouped heads), queries and keys may be normalised.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.layers.linear import Linear
from chainrule.layers.norm import RMSNorm
from chainrule.layers.positions import distances, rotate

Join = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # keys and values of new tokens -> of all that was read


@dataclass(frozen=True)
class Positions:
    """What attention must know of where its queries stand."""

    rotation: tuple[Tensor, Tensor] | None = None  # cos and sin, (time, width turned), or (batch, time, ...)
    bias: Tensor | None = None  # on scores, -inf for the future: (heads, time, keys), or (batch, heads, time, keys)


class Attention(nn.Module):
    def __init__(
        self,
        width: int,
        num_heads: int,
        num_key_value_heads: int,
        head_width: int,
        bias: bool | tuple[bool, bool] = True,
        is_normalised: bool = False,
        dropout: float = 0.0,
        norm_epsilon: float = 1e-5,
    ):
        """`bias`: of both matrices, or of each."""
        super().__init__()
        in_bias, out_bias = bias if isinstance(bias, tuple) else (bias, bias)
        self.num_heads, self.num_key_value_heads, self.head_width = num_heads, num_key_value_heads, head_width
        self.dropout = dropout
        self.query_key_value = Linear(width, (num_heads + 2 * num_key_value_heads) * head_width, in_bias)
        self.output = Linear(num_heads * head_width, width, out_bias)
        if is_normalised:
            self.query_norm, self.key_norm = (RMSNorm(head_width, norm_epsilon) for _ in range(2))
        self.is_normalised = is_normalised

    def forward(self, x: Tensor, positions: Positions, join: Join | None = None) -> Tensor:
        """x (batch, time, width) -> the same shape. Without `join`, nothing was read before."""
        query, key, value = self.project(x, positions)
        if join is not None:
            key, value = join(key, value)
        mixed = self._attend(query, key, value, positions.bias)
        attended: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return attended

    def project(self, x: Tensor, positions: Positions) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values as attention compares them: (batch, heads, time, head_width) each."""
        batch, time, _ = x.shape
        turned, fixed = self.num_heads + self.num_key_value_heads, self.num_key_value_heads
        joined = self.query_key_value(x).view(batch, time, turned + fixed, self.head_width)
        both, value = joined.split([turned, fixed], 2)  # queries beside keys, (batch, time, heads, head_width)
        if self.is_normalised:
            query, key = both.split([self.num_heads, self.num_key_value_heads], 2)
            both = torch.cat([self.query_norm(query), self.key_norm(key)], 2)
        if positions.rotation is not None:
            cosine, sine = positions.rotation
            both = rotate(both, cosine.unsqueeze(-2), sine.unsqueeze(-2))
        query, key = both.transpose(1, 2).split([self.num_heads, self.num_key_value_heads], 1)
        return query, key, value.transpose(1, 2)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
        time, keys = query.shape[2], key.shape[2]
        mask = bias
        if mask is None and 1 < time < keys:
            mask = distances(keys - time, time, query.device) >= 0
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            is_causal=bool(mask is None and time > 1),
            dropout_p=self.dropout if self.training else 0.0,
            enable_gqa=self.num_key_value_heads < self.num_heads,
        )
