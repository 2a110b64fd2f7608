"""The recipe that a model gets unless it is told otherwise: by kind of architecture, size and vocabulary."""

from typing import Any

from chainrule.training.recipe import Recipe

RECURRENT = ("elman", "ugrnn", "gru", "lstm")
DEFAULT_MINUTES = 5.0
DEFAULT_WINDOW = 64


def default_recipe(architecture: str, config: Any) -> Recipe:
    """Higher rates for narrower models; recurrent models read chains of short windows."""
    width = getattr(config, "width", 128)
    if architecture == "transformer":
        return Recipe(
            window=config.context_length,
            batch_size=max(4, 2048 // config.context_length),
            matrix_learning_rate=0.03,
            learning_rate=min(0.015, 2.0 / width),
            muon_rounds=4,
        )
    if architecture in RECURRENT:
        return Recipe(
            optimizer="adamw",
            window=32,
            chain=64,
            batch_size=16,
            learning_rate=min(0.006, 1.0 / width),
            beta2=0.99,
            clip=0.5,
        )
    window = min(getattr(config, "context_length", None) or DEFAULT_WINDOW, 128)
    return Recipe(optimizer="adamw", window=window, batch_size=16, learning_rate=0.003, beta2=0.99)
