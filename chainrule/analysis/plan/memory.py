"""Bytes: what training holds for every parameter, what a batch leaves for the backward pass, what generation keeps.

Activations as Korthikanti et al. (2022) count them, 16 numbers per token, layer and unit of width in a GPT, where
attention scores are not kept (torch's scaled_dot_product_attention keeps them where they carry a bias).
"""

from dataclasses import dataclass

from chainrule.analysis.plan.shapes import Shape

NUMBER_BYTES = 4  # float32; in mixed precision weights and gradients take half, and a float32 copy takes it again
ADAM_MOMENTS = 2


@dataclass(frozen=True)
class Memory:
    weights: int
    gradients: int
    optimizer: int
    total: int  # of these three
    batch_size: int | None = None  # sequences
    activations_per_sequence: int | None = None
    activations: int | None = None  # of the whole batch at once
    cache_per_token: int | None = None  # keys and values
    cache_per_context: int | None = None


def training_memory(num_parameters: int, shape: Shape | None = None, batch_size: int = 1) -> Memory:
    weights = num_parameters * NUMBER_BYTES
    held = (weights, weights, ADAM_MOMENTS * weights, (2 + ADAM_MOMENTS) * weights)
    if shape is None:
        return Memory(*held)
    sequence = shape.context_length * _numbers_per_token(shape) * NUMBER_BYTES
    cache = 2 * shape.num_layers * shape.key_value_width * NUMBER_BYTES
    return Memory(*held, batch_size, sequence, sequence * batch_size, cache, cache * shape.context_length)


def _numbers_per_token(shape: Shape) -> int:
    """Kept until the backward pass has used them; dropout, which keeps its masks, comes on top."""
    norm = 2  # what goes in (of RMSNorm, normalised) and what comes out
    heads = shape.query_width + shape.key_value_width
    turned = heads * (
        shape.qk_norm + (shape.positions == "rotary")
    )  # queries and keys before, whose memory the values share, as well as after
    scores = shape.num_heads * shape.context_length * (shape.positions in ("alibi", "relative"))
    hidden = {"relu": 1, "swiglu": 4}.get(shape.activation, 2) * shape.hidden_width
    layer = 2 * norm * shape.width + 2 * heads + turned + scores + hidden
    return shape.num_layers * layer + norm * shape.width + 2 * shape.vocabulary_size  # logits and their softmax
