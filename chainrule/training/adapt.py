"""Which weights learn where training begins from a run: all of them, those of the top blocks, or low-rank updates."""

from typing import TYPE_CHECKING

from chainrule.errors import UserError
from chainrule.layers.lora_settings import LoRA
from chainrule.models.contract import HasTrunk
from chainrule.training.recipe import Recipe

if TYPE_CHECKING:
    from chainrule.models._neural import NeuralModel


def lora_of(recipe: Recipe) -> LoRA | None:
    """The settings of LoRA; None where the weights themselves learn."""
    if not recipe.lora:
        return None
    alpha = 2.0 * recipe.lora_rank if recipe.lora_alpha is None else recipe.lora_alpha
    return LoRA(recipe.lora_rank, alpha, recipe.lora_matrices, recipe.top_layers, recipe.lora_dropout)


def choose_weights(model: "NeuralModel", recipe: Recipe) -> "NeuralModel":
    """The model with all weights frozen that the recipe does not let learn, and with the updates that it asks for."""
    blocks, settings = trunk_blocks(model, recipe), lora_of(recipe)
    if settings is not None:
        import torch

        from chainrule.layers.lora import add_lora

        torch.manual_seed(recipe.seed)
        add_lora(model, settings)
    elif blocks:
        assert isinstance(model, HasTrunk)
        for parameter in model.trunk_parameters(blocks):
            parameter.requires_grad_(False)
    return model


def trunk_blocks(model: "NeuralModel", recipe: Recipe) -> int:
    """How many of the lowest blocks do not learn."""
    if recipe.top_layers is None:
        return 0
    if not isinstance(model, HasTrunk):
        raise UserError("top_layers is for models of blocks, such as transformers; leave it out")
    if recipe.top_layers > model.num_blocks:
        raise UserError(
            f"top_layers must be at most {model.num_blocks}, the blocks of the model, got {recipe.top_layers}"
        )
    return model.num_blocks - recipe.top_layers
