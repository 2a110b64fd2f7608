"""The default recipe, by kind of model, size and optimizer."""

from dataclasses import replace
from math import ceil
from typing import Any

from chainrule.models.contract import HasRecipe
from chainrule.training.recipe import OPTIMIZERS, Recipe

DEFAULT_MINUTES = 5.0
DEFAULT_WINDOW = 64
FINETUNING_RATE, LARGEST_FINETUNING_RATE = 0.1, 0.003  # the first for each unit of width
LORA_RATE = 10  # times the rate of full weights
FINETUNING_WINDOW, FINETUNING_TOKENS = 512, 2048  # of a step
KEPT_PER_TOKEN, MOST_KEPT = 84, 1 << 30  # bytes for each block and each unit of its width; bytes in all


def default_recipe(module: Any, config: Any, optimizer: str | None) -> Recipe:
    """The default recipe: higher rates for narrower models; recurrent models read chains of short windows."""
    recipe = _of_kind(module, config)
    if optimizer in OPTIMIZERS and optimizer != recipe.optimizer:
        recipe = replace(recipe, optimizer=optimizer, learning_rate=OPTIMIZERS[optimizer])
    return recipe


def finetuning_recipe(module: Any, config: Any, optimizer: str | None, lora: bool) -> Recipe:
    """The default recipe where weights are not random: small steps of AdamW, which rise slowly and fall to nothing."""
    recipe = default_recipe(module, config, optimizer)
    width = getattr(config, "width", 128)
    rate = min(FINETUNING_RATE / width, LARGEST_FINETUNING_RATE) * (LORA_RATE if lora else 1)
    window = min(getattr(config, "context_length", None) or recipe.window, FINETUNING_WINDOW)
    kept = {name: getattr(recipe, name) for name in ("chain", "sampled_softmax", "sampled_head", "sampled_tail")}
    return Recipe(
        optimizer=optimizer if optimizer in OPTIMIZERS else "adamw",
        learning_rate=rate,
        table_learning_rate=0.01,
        beta2=0.99,
        warmup=0.05,
        evaluations=20,
        patience=4,
        window=recipe.window if module.Model.carries_state else window,
        batch_size=recipe.batch_size if module.Model.carries_state else max(FINETUNING_TOKENS // window, 1),
        **kept,
    )


def micro_batches(config: Any, batch_size: int, window: int) -> int:
    """How many parts a batch is read in, so that what is kept of one for the gradient takes about a gigabyte."""
    per_token = KEPT_PER_TOKEN * getattr(config, "width", 128) * getattr(config, "num_layers", 1)
    return min(batch_size, ceil(batch_size * window * per_token / MOST_KEPT))


def _of_kind(module: Any, config: Any) -> Recipe:
    if isinstance(module, HasRecipe):
        return Recipe(**module.recipe(config))
    width = getattr(config, "width", 128)
    reads = getattr(config, "context_length", None)
    if module.Model.carries_state:
        rate = min(0.006, 1.0 / width)
        return Recipe(optimizer="adamw", window=32, chain=64, batch_size=16, learning_rate=rate, beta2=0.99)
    if reads and hasattr(config, "num_layers"):
        return Recipe(
            window=reads,
            batch_size=max(4, 2048 // reads),
            learning_rate=min(0.015, 2.0 / width),
            muon_rounds=3,
        )
    window = min(reads or DEFAULT_WINDOW, 128)
    return Recipe(optimizer="adamw", window=window, batch_size=16, learning_rate=0.003, beta2=0.99)
