"""The settings that models on the tape read; the torch models' configurations have them all, under the same names."""

from typing import Protocol


class BagOfWordsConfig(Protocol):
    dropout: float


class MLPConfig(Protocol):
    order: int
    is_direct: bool
    tied: bool
    dropout: float


class RecurrentConfig(Protocol):
    num_layers: int
    input_scale: float
    residual: bool
    input_dropout: float
    dropout: float
    recurrent_dropout: float


class ElmanConfig(RecurrentConfig, Protocol):
    nonlinearity: str


class TransformerConfig(Protocol):
    num_layers: int
    width: int
    num_heads: int
    num_key_value_heads: int | None
    head_width: int | None
    activation: str
    positions: str
    rotary_base: float
    norm: str
    norm_epsilon: float
    qk_norm: bool
    embedding_norm: bool
    logit_cap: float
    dropout: float
