"""Small Transformers of random weights, every one of them far from zero, and tokenizers to go with them."""

from dataclasses import replace
from typing import Any

import torch

from chainrule.models.transformer import GPT2, LLAMA, Config, Model
from chainrule.text.base import Tokenizer
from tests.text.samples import train

TEXT = ["the cat sat on the mat", "the dog sat on the log", "a cat and a dog sat down"] * 4
SHAPE: dict[str, Any] = {"width": 32, "num_layers": 2, "num_heads": 4, "context_length": 48}
PROFILES: dict[str, Any] = {
    "gpt2": GPT2(**SHAPE),
    "gpt2, untied": Config(
        **SHAPE, hidden_width=64, norm="layer", norm_epsilon=1e-6, activation="gelu-tanh", positions="learned",
        bias=True, initialisation="normal",
    ),
    "llama": LLAMA(**SHAPE, hidden_width=64, num_key_value_heads=2),
    "llama, tied, other base": LLAMA(**SHAPE, hidden_width=64, tied=True, rotary_base=500.0, norm_epsilon=1e-6),
}  # fmt: skip


def bpe() -> Tokenizer:
    return train("bpe", TEXT, size=300, min_count=1)


def random_model(model: Any, deviation: float = 0.2) -> Any:
    torch.manual_seed(7)
    for name, parameter in model.named_parameters():
        around = 1.0 if "norm" in name and name.endswith("weight") else 0.0
        torch.nn.init.normal_(parameter, around, deviation)
    return model.eval()


def transformer(profile: str, tokenizer: Tokenizer, **changes: Any) -> Model:
    config = replace(PROFILES[profile], **changes)
    return random_model(Model(config, tokenizer.vocabulary_size, tokenizer.eos))
