"""Multi-head causal self-attention: softmax(q·k/√d + mask) v for each head.

Several query heads may share one head of keys and values (grouped-query attention, Ainslie et al., 2023); queries and
keys may be normalised (QK-norm).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.layers.autocast import autocast_dtype, without_autocast
from chainrule.layers.heads import can_split_heads, split_heads
from chainrule.layers.linear import Linear
from chainrule.layers.norm import RMSNorm
from chainrule.layers.positions import distances, rotate

LONGEST = 512  # tokens whose weights are kept in memory: a third of what else there is to keep, and less for fewer

# The keys and values of new tokens -> those of all tokens so far, the new ones included, as a cache gives them.
UpdateCache = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Positions:
    """What attention needs to know about the positions of its queries."""

    rotation: tuple[Tensor, Tensor] | None = (
        None  # cos and sin of rotary angles: (time, rotary width), or (batch, time, ...)
    )
    bias: Tensor | None = (
        None  # added to scores, -inf for the future: (heads, time, keys), or (batch, heads, time, keys)
    )


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
        """`bias`: whether both matrices have one, or whether the input and the output matrix do."""
        super().__init__()
        in_bias, out_bias = bias if isinstance(bias, tuple) else (bias, bias)
        self.num_heads, self.num_key_value_heads, self.head_width = num_heads, num_key_value_heads, head_width
        self.dropout = dropout
        self.query_key_value = Linear(width, (num_heads + 2 * num_key_value_heads) * head_width, in_bias)
        self.output = Linear(num_heads * head_width, width, out_bias)
        if is_normalised:
            self.query_norm, self.key_norm = (RMSNorm(head_width, norm_epsilon) for _ in range(2))
        self.is_normalised = is_normalised

    def forward(self, x: Tensor, positions: Positions, update_cache: UpdateCache | None = None) -> Tensor:
        """x (batch, time, width) -> the same shape. Without `update_cache`, x is the whole text so far."""
        query, key, value = self.project(x, positions)
        if update_cache is not None:
            key, value = update_cache(key, value)
        mixed = self._attend(query, key, value, positions.bias)
        attended: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return attended

    def project(self, x: Tensor, positions: Positions) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values as attention compares them: (batch, heads, time, head_width) each."""
        batch, time, _ = x.shape
        rotated, fixed = self.num_heads + self.num_key_value_heads, self.num_key_value_heads
        stacked = self.query_key_value(x).view(batch, time, rotated + fixed, self.head_width)
        rotation = positions.rotation
        if not self.is_normalised and rotation is None:
            query, key, value = stacked.split([self.num_heads, fixed, fixed], 2)
            return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
        stacked = stacked.to(x.dtype)
        if rotation is not None and can_split_heads(stacked, rotation):
            norms = (
                (self.query_norm.weight, self.key_norm.weight, self.query_norm.epsilon) if self.is_normalised else None
            )
            return split_heads(stacked, self.num_heads, norms, rotation)
        both, value = stacked.split([rotated, fixed], 2)  # queries beside keys, (batch, time, heads, head_width)
        if self.is_normalised:
            query, key = both.split([self.num_heads, self.num_key_value_heads], 2)
            both = torch.cat([self.query_norm(query), self.key_norm(key)], 2)
        if rotation is not None:
            cosine, sine = rotation
            both = rotate(both, cosine.unsqueeze(-2), sine.unsqueeze(-2))
        query, key = both.transpose(1, 2).split([self.num_heads, self.num_key_value_heads], 1)
        return query, key, value.transpose(1, 2)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
        time, keys = query.shape[2], key.shape[2]
        dropout = self.dropout if self.training else 0.0
        if torch.is_autocast_enabled(query.device.type):
            if keys <= LONGEST:
                return attend_by_products(query, key, value, bias, dropout)
            query, key, value = query.float(), key.float(), value.float()  # torch's kernel is no faster in bfloat16
        mask = bias
        if mask is None and 1 < time < keys:
            mask = distances(keys - time, time, query.device) >= 0
        with without_autocast(query):
            return F.scaled_dot_product_attention(
                query,
                key,
                value,
                attn_mask=mask,
                is_causal=bool(mask is None and time > 1),
                dropout_p=dropout,
                enable_gqa=self.num_key_value_heads < self.num_heads,
            )


def attend_by_products(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, dropout: float = 0.0) -> Tensor:
    """softmax(q·k/√d + bias) v, (batch, heads, time, head_width), each step for all at once; bias None: causal.

    The products are in the precision of torch.autocast. In bfloat16 that takes a third of the time of torch's kernel,
    which saves the memory of the weights (batch, heads, time, keys).
    """
    batch, heads, time, width = query.shape
    groups, keys, dtype = heads // key.shape[1], key.shape[2], autocast_dtype(query)
    if groups > 1:
        key, value = (each.repeat_interleave(groups, 1) for each in (key, value))
    together = (each.to(dtype, memory_format=torch.contiguous_format) for each in (query, key, value))
    query, key, value = (each.flatten(0, 1) for each in together)  # (batch · heads, tokens, head_width)
    if bias is None:
        bias = query.new_zeros(time, keys).masked_fill_(distances(keys - time, time, query.device) < 0, -torch.inf)
    else:
        bias = bias.to(dtype).expand(batch, heads, time, keys).flatten(0, 1)
    with without_autocast(query):
        weights = torch.baddbmm(bias, query, key.transpose(1, 2), alpha=width**-0.5).softmax(-1)
        weights = F.dropout(weights, dropout) if dropout else weights
        return torch.bmm(weights, value).view(batch, heads, time, -1)
