"""The settings of the Transformer and the widths that follow from them; torch is not imported.

Plans on paper count parameters with these, so a model of 175 billion parameters costs nothing to look at.
"""

import math
from dataclasses import dataclass
from functools import partial

from chainrule.checks import require_choice, require_fractions, require_sizes
from chainrule.errors import UserError
from chainrule.layers._choices import ACTIVATIONS, AT_INPUT, NORMS, POSITIONS

CHOICES = {
    "norm": NORMS,
    "norm_placement": ("pre", "post"),
    "activation": ACTIVATIONS,
    "positions": POSITIONS,
    "position_join": ("add", "concatenate"),
    "attention_bias": ("as-bias", "queries", "all"),
    "initialisation": ("normal", "zero"),
}


@dataclass(frozen=True)
class Config:
    """Settings of a Transformer; the properties are the widths that its tensors have."""

    width: int = 256
    num_layers: int = 6
    num_heads: int = 4
    num_key_value_heads: int | None = None  # fewer: several query heads share their keys and values
    head_width: int | None = None  # None: width / num_heads
    hidden_width: int | None = None  # of the feed-forward part; None: 4 x width, or 8/3 of it for swiglu
    context_length: int = 256
    norm: str = "rms"
    norm_placement: str = "pre"
    norm_epsilon: float = 1e-5
    activation: str = "relu-squared"
    positions: str = "rotary"
    position_join: str = "add"
    rotary_base: float = 10000.0
    rotary_fraction: float = 1.0  # the part of a head's width that rotary positions rotate
    tied: bool = False  # the output matrix is the embedding
    bias: bool = False
    attention_bias: str = "as-bias"  # queries: of queries, keys and values alone (Qwen2); all: of attention alone
    parallel: bool = False  # attention and feed-forward read the same x, side by side (GPT-J, GPT-NeoX)
    qk_norm: bool = False
    logit_cap: float = 0.0  # cap * tanh(logits / cap); 0: none
    dropout: float = 0.0  # of what enters the residual stream
    attention_dropout: float = 0.0  # of attention's weights, which is slow on a CPU
    initialisation: str = "zero"  # of the projections into the residual stream; normal: as GPT-2
    ngram_order: int = 0  # hashed embeddings of 2-grams up to this; 0: none
    ngram_rows: int = 4096  # for each order; a power of two
    ngram_dropout: float = 0.0
    embedding_norm: bool = False
    output_bias: bool = False  # starts as the log of each word's frequency

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            require_choice(name, getattr(self, name), known)
        require_sizes(self, "width", "num_layers", "num_heads", "context_length")
        require_sizes(self, "num_key_value_heads", "head_width", "hidden_width")
        require_fractions(self, "dropout", "attention_dropout", "ngram_dropout")
        for name in ("norm_epsilon", "rotary_base", "logit_cap"):
            value, is_zero_fine = getattr(self, name), name != "rotary_base"
            if not (0 < value < math.inf or (is_zero_fine and value == 0)):
                raise UserError(f"{name} must be a number {'of at least' if is_zero_fine else 'above'} 0, got {value}")
        if self.head_width is None and self.width % self.num_heads:
            raise UserError(f"width must be a multiple of num_heads, got {self.width} and {self.num_heads}")
        if self.num_heads % self.key_value_heads:
            raise UserError(
                f"num_heads must be a multiple of num_key_value_heads, got {self.num_heads} and {self.key_value_heads}"
            )
        if not 0 < self.rotary_fraction <= 1:
            raise UserError(f"rotary_fraction must be above 0 and at most 1, got {self.rotary_fraction}")
        if self.positions == "rotary" and (self.width_of_rotation % 2 or not self.width_of_rotation):
            raise UserError(f"rotary positions need an even head width, got {self.width_of_rotation}")
        if self.parallel and self.norm_placement == "post":
            raise UserError("attention and feed-forward side by side need norm_placement=pre")
        if self.is_concatenated and self.tied:
            raise UserError("concatenated positions leave the embedding narrower than the output; set tied=false")
        if self.is_concatenated and self.width < 2:
            raise UserError("concatenated positions need a width of at least 2, got 1")
        if self.ngram_order < 0 or self.ngram_order == 1:
            raise UserError(f"ngram_order must be 0 or at least 2, got {self.ngram_order}")
        if self.ngram_order and (self.ngram_rows < 1 or self.ngram_rows & (self.ngram_rows - 1)):
            raise UserError(f"ngram_rows must be a power of two, got {self.ngram_rows}")

    @property
    def key_value_heads(self) -> int:
        """How many heads of keys and values there are."""
        return self.num_key_value_heads or self.num_heads

    @property
    def width_of_head(self) -> int:
        """Of one head's queries, keys and values."""
        return self.head_width or self.width // self.num_heads

    @property
    def width_of_rotation(self) -> int:
        """How much of a head rotary positions rotate; the rest is left as it is."""
        return int(self.width_of_head * self.rotary_fraction)

    @property
    def has_query_bias(self) -> bool:
        return self.bias or self.attention_bias != "as-bias"

    @property
    def has_attention_output_bias(self) -> bool:
        return self.bias or self.attention_bias == "all"

    @property
    def width_of_feedforward(self) -> int:
        """Of the hidden layer; swiglu has three matrices and so takes 8/3 of the width, a multiple of 8."""
        if self.hidden_width:
            return self.hidden_width
        return -(-8 * self.width // 24) * 8 if self.activation == "swiglu" else 4 * self.width

    @property
    def is_concatenated(self) -> bool:
        """Whether position vectors stand beside the token vectors instead of being added to them."""
        return self.positions in AT_INPUT and self.position_join == "concatenate"

    @property
    def width_of_positions(self) -> int:
        """Of a position vector at the input: a quarter of the width where it is concatenated."""
        return max(self.width // 4, 1) if self.is_concatenated else self.width

    @property
    def width_of_tokens(self) -> int:
        """Of a token's vector at the input: what concatenated positions leave of the width."""
        return self.width - self.width_of_positions if self.is_concatenated else self.width

    @property
    def width_of_queries(self) -> int:
        """Of the queries of all heads together; equal to the width in most models."""
        return self.num_heads * self.width_of_head

    @property
    def width_of_keys(self) -> int:
        """Of the keys of all heads together; the values have the same width."""
        return self.key_value_heads * self.width_of_head

    @property
    def is_gated(self) -> bool:
        """Whether the feed-forward part has a third matrix, which makes the gate."""
        return self.activation == "swiglu"


GPT2 = partial(
    Config, norm="layer", activation="gelu-tanh", positions="learned", tied=True, bias=True, initialisation="normal"
)
LLAMA = partial(Config, norm="rms", activation="swiglu", positions="rotary", initialisation="normal")
FAST = partial(Config, rotary_base=1000.0, qk_norm=True, embedding_norm=True)
