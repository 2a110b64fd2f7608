"""A Transformer block: attention, then a feed-forward network, each with a residual connection and a norm.

The block of a decoder that looks at a source has cross-attention in between, under the same rules.
"""

from collections.abc import Callable

from torch import Tensor, nn

from chainrule.layers.attention import Attention, Join, Positions
from chainrule.layers.feedforward import FeedForward
from chainrule.layers.joins import CrossAttention

Look = Callable[[Tensor], Tensor]


class Block(nn.Module):
    """pre: x + f(norm(x)), so that gradients pass the residuals untouched; post: norm(x + f(x)), the original.

    Parallel: x + attention(norm(x)) + feedforward(norm'(x)), both of the same x.
    """

    def __init__(self, attention: Attention, feedforward: FeedForward, norms: tuple[nn.Module, nn.Module],
                 is_pre: bool = True, dropout: float = 0.0, is_parallel: bool = False,
                 cross: tuple[CrossAttention, nn.Module] | None = None):  # fmt: skip
        """`cross`: the attention to a source, and its norm."""
        super().__init__()
        if cross is not None:
            self.cross_attention, self.cross_norm = cross
        self.attention, self.feedforward = attention, feedforward
        self.attention_norm, self.feedforward_norm = norms
        self.is_pre, self.is_parallel = is_pre, is_parallel
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(self, x: Tensor, positions: Positions, join: Join | None = None, look: Look | None = None) -> Tensor:
        """`look` is the cross-attention, bound to what it looks at."""
        if self.is_parallel:
            mixed: Tensor = self.dropout(self.attention(self.attention_norm(x), positions, join))
            fed: Tensor = self.dropout(self.feedforward(self.feedforward_norm(x)))
            return x + mixed + fed
        if self.is_pre:
            x = x + self.dropout(self.attention(self.attention_norm(x), positions, join))
            if look is not None:
                x = x + self.dropout(look(self.cross_norm(x)))
            added: Tensor = self.dropout(self.feedforward(self.feedforward_norm(x)))
            return x + added
        x = self.attention_norm(x + self.dropout(self.attention(x, positions, join)))
        if look is not None:
            x = self.cross_norm(x + self.dropout(look(x)))
        normed: Tensor = self.feedforward_norm(x + self.dropout(self.feedforward(x)))
        return normed
