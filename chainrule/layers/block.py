"""A Transformer block: attention, then a feed-forward network, each with a residual connection and a norm."""

from torch import Tensor, nn

from chainrule.layers.attention import Attention, Cache, Positions
from chainrule.layers.feedforward import FeedForward


class Block(nn.Module):
    """pre: x + f(norm(x)), so that gradients pass the residuals untouched; post: norm(x + f(x)), the original."""

    def __init__(self, attention: Attention, feedforward: FeedForward, norms: tuple[nn.Module, nn.Module],
                 is_pre: bool = True, dropout: float = 0.0):  # fmt: skip
        super().__init__()
        self.attention, self.feedforward = attention, feedforward
        self.attention_norm, self.feedforward_norm = norms
        self.is_pre = is_pre
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(self, x: Tensor, positions: Positions, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        if self.is_pre:
            mixed, cache = self.attention(self.attention_norm(x), positions, cache)
            x = x + self.dropout(mixed)
            return x + self.dropout(self.feedforward(self.feedforward_norm(x))), cache
        mixed, cache = self.attention(x, positions, cache)
        x = self.attention_norm(x + self.dropout(mixed))
        return self.feedforward_norm(x + self.dropout(self.feedforward(x))), cache
