"""The parameters of a Transformer by formula: for GPT, 12 L d² in blocks, (V + T) d in tables, and smaller parts."""

from dataclasses import dataclass, field

from chainrule.layers._choices import RELATIVE_BUCKETS
from chainrule.models._transformer_config import Config


@dataclass(frozen=True)
class Parameters:
    total: int
    without_embeddings: int  # of blocks and norms
    multiplied: int  # without tables that are only looked up: the N of 6N
    parts: dict[str, int] = field(default_factory=dict)


def count_parameters(config: Config, vocabulary_size: int) -> Parameters:
    """The parameters of a Transformer with these settings, in all and part by part."""
    parts = {
        "token_embedding": vocabulary_size * config.width_of_tokens,
        "ngram_embedding": max(config.ngram_order - 1, 0) * config.ngram_rows * config.width_of_tokens,
        "position_embedding": config.context_length * config.width_of_positions * (config.positions == "learned"),
        "attention": _attention(config),
        "feedforward": _feedforward(config),
        "norms": _norms(config),
        "output": vocabulary_size * (config.output_bias + (0 if config.tied else config.width)),
    }
    total = sum(parts.values())
    inner = parts["attention"] + parts["feedforward"] + parts["norms"]
    # The tables of GPT-3's paper count the positions too, though they are only looked up; so do we.
    looked_up = parts["ngram_embedding"] + (0 if config.tied else parts["token_embedding"])
    return Parameters(total, inner, total - looked_up, {name: count for name, count in parts.items() if count})


def _attention(config: Config) -> int:
    joined = config.width_of_queries + 2 * config.width_of_keys
    layer = config.width * joined + config.width_of_queries * config.width
    layer += joined * config.has_query_bias + config.width * config.has_attention_output_bias
    layer += 2 * config.width_of_head * config.qk_norm
    by_distance = RELATIVE_BUCKETS * config.num_heads if config.positions == "relative" else 0
    return config.num_layers * layer + by_distance


def _feedforward(config: Config) -> int:
    hidden = config.width_of_feedforward
    into = hidden * (2 if config.is_gated else 1)
    layer = config.width * into + hidden * config.width + (into + config.width) * config.bias
    return config.num_layers * layer


def _norms(config: Config) -> int:
    """Two in a block and, with pre-norm, one at the end; each has a scale, a LayerNorm also a bias."""
    norms = 2 * config.num_layers + (config.norm_placement == "pre")
    return norms * config.width * (2 if config.norm == "layer" and config.bias else 1)
