"""A Transformer block: attention, then a feed-forward network, each with a residual connection and a norm.

The block of a decoder that reads a source has cross-attention in between, with a residual connection and a norm, too.
"""

from collections.abc import Callable

from torch import Tensor, nn

from chainrule.layers.attention import Attention, Positions, UpdateCache
from chainrule.layers.feedforward import FeedForward
from chainrule.layers.joins import CrossAttention

CrossAttend = Callable[[Tensor], Tensor]  # cross-attention with its source already given


class Block(nn.Module):
    """Where the norms are placed: pre, x + f(norm(x)), so that gradients pass the residuals unchanged; or post,
    norm(x + f(x)), as in the original (Vaswani et al., 2017).

    Parallel blocks add both at once: x + attention(norm(x)) + feedforward(norm'(x)), as in GPT-J.
    """

    def __init__(self, attention: Attention, feedforward: FeedForward, norms: tuple[nn.Module, nn.Module],
                 is_pre: bool = True, dropout: float = 0.0, is_parallel: bool = False,
                 cross: tuple[CrossAttention, nn.Module] | None = None):  # fmt: skip
        """`cross`: the cross-attention to a source, and its norm."""
        super().__init__()
        if cross is not None:
            self.cross_attention, self.cross_norm = cross
        self.attention, self.feedforward = attention, feedforward
        self.attention_norm, self.feedforward_norm = norms
        self.is_pre, self.is_parallel = is_pre, is_parallel
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(self, x: Tensor, positions: Positions, update_cache: UpdateCache | None = None,
                cross_attend: CrossAttend | None = None) -> Tensor:  # fmt: skip
        """x (batch, time, width) -> the same shape. A block with cross-attention needs `cross_attend`."""
        if self.is_parallel:
            mixed = self.attention(self.attention_norm(x), positions, update_cache)
            return x + self.dropout(mixed) + self.dropout(self.feedforward(self.feedforward_norm(x)))
        if self.is_pre:
            x = x + self.dropout(self.attention(self.attention_norm(x), positions, update_cache))
            if cross_attend is not None:
                x = x + self.dropout(cross_attend(self.cross_norm(x)))
            return x + self.dropout(self.feedforward(self.feedforward_norm(x)))
        x = self.attention_norm(x + self.dropout(self.attention(x, positions, update_cache)))
        if cross_attend is not None:
            x = self.cross_norm(x + self.dropout(cross_attend(x)))
        normed: Tensor = self.feedforward_norm(x + self.dropout(self.feedforward(x)))
        return normed
