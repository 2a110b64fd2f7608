"""The settings that all blocks of a Transformer encoder or decoder share: sizes, norms, biases, positions.

The defaults are what learned best here: RMSNorm before each part, QK-norm, rotary positions, no biases. The original
(Vaswani et al., 2017) has LayerNorm after each part, biases, and sinusoids that are added to the embeddings.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from chainrule.layers.attention import Attention
from chainrule.layers.block import Block
from chainrule.layers.feedforward import FeedForward
from chainrule.layers.joins import CrossAttention
from chainrule.layers.norm import make_norm
from chainrule.layers.positions import First, halved_sinusoids, rotary_angles

POSITIONS = ("rotary", "sinusoidal")


@dataclass(frozen=True)
class BlockConfig:
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

    def make_block(self, has_cross_attention: bool = False) -> Block:
        width, heads, bias = self.width, self.num_heads, self.bias
        return Block(
            Attention(width, heads, heads, self.head_width, bias, self.qk_norm),
            FeedForward(width, self.hidden_width, self.activation, bias),
            (self._norm(), self._norm()),
            self.norm_placement == "pre",
            self.dropout,
            cross=(CrossAttention(width, heads, width, bias), self._norm()) if has_cross_attention else None,
        )

    def last_norm(self) -> nn.Module:
        """The norm after the last block; with norms after each part, none is left to do."""
        return self._norm() if self.norm_placement == "pre" else nn.Identity()

    def _norm(self) -> nn.Module:
        return make_norm(self.norm, self.width, bias=self.bias)

    def add_positions(self, x: Tensor, first: First) -> Tensor:
        """x (rows, time, width) with sinusoids added, where these are the positions; else x as it is."""
        if self.positions == "rotary":
            return x
        return x + halved_sinusoids(first, x.shape[1], self.width, x.device).to(x.dtype)

    def rotation(self, x: Tensor, first: First) -> tuple[Tensor, Tensor] | None:
        """cos and sin of the rotary angles for x (rows, time, width); None where positions are not rotary."""
        if self.positions != "rotary":
            return None
        return rotary_angles(first, x.shape[1], self.head_width, 10000.0, x.device, x.dtype)
