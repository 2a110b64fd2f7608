"""The shape of a Transformer as far as counting needs it, from the settings of models.transformer.Config.

Without torch: a plan of 175 billion parameters must not import, let alone allocate, anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from chainrule.errors import UserError


@dataclass(frozen=True)
class Shape:
    width: int
    num_layers: int
    num_heads: int
    context_length: int
    vocabulary_size: int
    num_key_value_heads: int
    head_width: int
    hidden_width: int
    norm: str
    norm_placement: str
    activation: str
    positions: str
    position_join: str
    tied: bool
    bias: bool
    qk_norm: bool
    ngram_order: int = 0
    ngram_rows: int = 0
    output_bias: bool = False
    attention_bias: str = "as-bias"

    @property
    def query_width(self) -> int:
        """Of all heads together; the width of the model in most."""
        return self.num_heads * self.head_width

    @property
    def key_value_width(self) -> int:
        """Of the keys of all heads; the values have as much."""
        return self.num_key_value_heads * self.head_width

    @property
    def is_gated(self) -> bool:
        return self.activation == "swiglu"

    @property
    def is_concatenated(self) -> bool:
        return self.positions in ("learned", "sinusoidal") and self.position_join == "concatenate"

    @property
    def position_width(self) -> int:
        return max(self.width // 4, 1) if self.is_concatenated else self.width

    @property
    def token_width(self) -> int:
        return self.width - self.position_width if self.is_concatenated else self.width


def shape_of(settings: Mapping[str, Any], vocabulary_size: int) -> Shape:
    """What settings left to be worked out (None) filled in; settings that change no count left out."""
    chosen = {field.name: settings[field.name] for field in fields(Shape) if field.name in settings}
    chosen["vocabulary_size"] = vocabulary_size
    try:
        width, num_heads = chosen["width"], chosen["num_heads"]
        chosen["num_key_value_heads"] = chosen.get("num_key_value_heads") or num_heads
        chosen["head_width"] = chosen.get("head_width") or width // num_heads
        chosen["hidden_width"] = chosen.get("hidden_width") or _hidden_width(width, chosen["activation"])
        return Shape(**chosen)
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise UserError(f"these settings do not describe a Transformer: {error}") from None


def _hidden_width(width: int, activation: str) -> int:
    """4 x width; for swiglu, which has three matrices, 8/3 of it rounded up to a multiple of 8."""
    return -(-8 * width // 24) * 8 if activation == "swiglu" else 4 * width
