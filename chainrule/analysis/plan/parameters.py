"""Parameters by formula, part by part: for GPT, 12 L d² in the blocks, (V + T) d in the tables, and what is small."""

from dataclasses import dataclass, field

from chainrule.analysis.plan.shapes import Shape

RELATIVE_BUCKETS = 32  # of distances, each with a bias for every head


@dataclass(frozen=True)
class Parameters:
    total: int
    without_embeddings: int  # what the blocks and the norms hold
    multiplied: int  # without tables that are only looked up: the N of 6N
    parts: dict[str, int] = field(default_factory=dict)


def count_parameters(shape: Shape) -> Parameters:
    parts = {
        "token_embedding": shape.vocabulary_size * shape.token_width,
        "ngram_embedding": max(shape.ngram_order - 1, 0) * shape.ngram_rows * shape.token_width,
        "position_embedding": shape.context_length * shape.position_width if shape.positions == "learned" else 0,
        "attention": _attention(shape),
        "feedforward": _feedforward(shape),
        "norms": _norms(shape),
        "output": shape.vocabulary_size * (shape.output_bias + (0 if shape.tied else shape.width)),
    }
    total = sum(parts.values())
    inner = parts["attention"] + parts["feedforward"] + parts["norms"]
    # GPT-3's tables count the positions too, though they are only looked up; so do we.
    looked_up = parts["ngram_embedding"] + (0 if shape.tied else parts["token_embedding"])
    return Parameters(total, inner, total - looked_up, {name: count for name, count in parts.items() if count})


def _attention(shape: Shape) -> int:
    joined = shape.query_width + 2 * shape.key_value_width
    layer = shape.width * joined + shape.query_width * shape.width
    layer += joined * (shape.bias or shape.attention_bias != "as-bias")
    layer += shape.width * (shape.bias or shape.attention_bias == "all")
    layer += 2 * shape.head_width * shape.qk_norm
    by_distance = RELATIVE_BUCKETS * shape.num_heads if shape.positions == "relative" else 0
    return shape.num_layers * layer + by_distance


def _feedforward(shape: Shape) -> int:
    into = shape.hidden_width * (2 if shape.is_gated else 1)
    layer = shape.width * into + shape.hidden_width * shape.width + (into + shape.width) * shape.bias
    return shape.num_layers * layer


def _norms(shape: Shape) -> int:
    """Two in a block, and with pre-LN one at the end; a scale each, LayerNorm also a bias."""
    norms = 2 * shape.num_layers + (shape.norm_placement == "pre")
    return norms * shape.width * (2 if shape.norm == "layer" and shape.bias else 1)
