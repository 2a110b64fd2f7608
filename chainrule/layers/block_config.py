"""What the blocks of a Transformer that reads or writes have in common: sizes, norms, biases, and how places are told.

As it stands, it is what learns best here: RMSNorm before each part, queries and keys normed too, rotations, no biases.
The original (Vaswani et al., 2017) has LayerNorm after each part, biases, and sinusoids added to what is read.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from chainrule.layers.attention import Attention
from chainrule.layers.block import Block
from chainrule.layers.feedforward import FeedForward
from chainrule.layers.joins import CrossAttention
from chainrule.layers.norm import make_norm
from chainrule.layers.positions import First, halved_sinusoids, rotations

POSITIONS = ("rotary", "sinusoidal")


@dataclass(frozen=True)
class Shape:
    width: int
    num_heads: int
    hidden_width: int
    activation: str
    dropout: float
    norm: str = "rms"
    norm_placement: str = "pre"
    qk_norm: bool = True
    bias: bool = False
    positions: str = "rotary"

    @property
    def head_width(self) -> int:
        return self.width // self.num_heads

    def make_block(self, looks: bool = False) -> Block:
        """`looks`: whether it has cross-attention to a source."""
        width, heads, bias = self.width, self.num_heads, self.bias
        return Block(
            Attention(width, heads, heads, self.head_width, bias, self.qk_norm),
            FeedForward(width, self.hidden_width, self.activation, bias),
            (self._norm(), self._norm()),
            self.norm_placement == "pre",
            self.dropout,
            cross=(CrossAttention(width, heads, width, bias), self._norm()) if looks else None,
        )

    def last_norm(self) -> nn.Module:
        """Of what the last block gives, where that is not normed already."""
        return self._norm() if self.norm_placement == "pre" else nn.Identity()

    def _norm(self) -> nn.Module:
        return make_norm(self.norm, self.width, bias=self.bias)

    def place(self, x: Tensor, first: First) -> Tensor:
        """x (rows, time, width) as blocks read it, its places joined to it if they are told there."""
        if self.positions == "rotary":
            return x
        return x + halved_sinusoids(first, x.shape[1], self.width, x.device).to(x.dtype)

    def turn(self, x: Tensor, first: First) -> tuple[Tensor, Tensor] | None:
        """By what attention turns its queries and keys, if it does."""
        if self.positions != "rotary":
            return None
        return rotations(first, x.shape[1], self.head_width, 10000.0, x.device, x.dtype)
