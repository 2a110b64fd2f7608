"""FLOPs of training: 2 per parameter and token forward, 4 backward (Kaplan et al., 2020), and those of attention.

A query reads half of the context on average, once for its scores and once for the weighted values.
"""

from dataclasses import dataclass

from chainrule.models._transformer_config import Config

PETAFLOP_DAY = 1e15 * 86_400  # 8.64e19 FLOPs
BACKWARD = 2  # a backward pass costs two forward ones


@dataclass(frozen=True)
class Compute:
    tokens: int
    forward_flops_per_token: float
    training_flops_per_token: float
    attention_forward_flops_per_token: float
    attention_training_flops_per_token: float
    training_flops: float  # 6N x tokens, as papers count
    training_flops_with_attention: float
    petaflop_days: float  # of `training_flops`


def training_compute(num_parameters: int, tokens: int, config: Config | None = None) -> Compute:
    """What training on so many tokens takes; attention is counted where the settings of a Transformer are given."""
    forward, attention = 2.0 * num_parameters, attention_flops(config) if config else 0.0
    training, attention_training = forward * (1 + BACKWARD), attention * (1 + BACKWARD)
    total = training * tokens
    return Compute(
        tokens,
        forward,
        training,
        attention,
        attention_training,
        total,
        (training + attention_training) * tokens,
        total / PETAFLOP_DAY,
    )


def attention_flops(config: Config) -> float:
    """Per token, forward: 2 · 2 · (T + 1)/2 · width of all heads, in every layer."""
    return 2.0 * (config.context_length + 1) * config.width_of_queries * config.num_layers
