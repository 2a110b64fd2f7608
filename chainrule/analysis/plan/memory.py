"""Memory in bytes: of weights, gradients and optimizer, of activations kept for the backward pass, of the cache.

Activations are counted as by Korthikanti et al. (2022), 16 numbers per token, layer and unit of width in a GPT whose
attention scores are not kept (they are where they carry a bias, and those of up to 512 tokens in bfloat16).
"""

from dataclasses import dataclass

from chainrule.layers._choices import BY_DISTANCE
from chainrule.models._transformer_config import Config

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


def training_memory(
    num_parameters: int, config: Config | None = None, vocabulary_size: int = 0, batch_size: int = 1
) -> Memory:
    """What training holds; activations and cache are counted where the settings of a Transformer are given."""
    weights = num_parameters * NUMBER_BYTES
    held = (weights, weights, ADAM_MOMENTS * weights, (2 + ADAM_MOMENTS) * weights)
    if config is None:
        return Memory(*held)
    sequence = config.context_length * _numbers_per_token(config, vocabulary_size) * NUMBER_BYTES
    cache = 2 * config.num_layers * config.width_of_keys * NUMBER_BYTES
    return Memory(*held, batch_size, sequence, sequence * batch_size, cache, cache * config.context_length)


def _numbers_per_token(config: Config, vocabulary_size: int) -> int:
    """How many numbers per token the backward pass needs; the masks of dropout are not counted."""
    norm = 2  # the input (of RMSNorm, normalised) and the output
    heads = config.width_of_queries + config.width_of_keys
    # Queries and keys are kept before as well as after their norm and their rotation, which are one operation.
    changed = heads * (config.qk_norm or config.positions == "rotary")
    scores = config.num_heads * config.context_length * (config.positions in BY_DISTANCE)
    hidden = {"relu": 1, "swiglu": 4}.get(config.activation, 2) * config.width_of_feedforward
    layer = 2 * norm * config.width + 2 * heads + changed + scores + hidden
    return config.num_layers * layer + norm * config.width + 2 * vocabulary_size  # logits and their softmax
