"""Refuses a recipe that this machine, the architecture or the environment cannot carry out, before data is read."""

from types import ModuleType
from typing import Any

from chainrule.errors import UserError
from chainrule.training.engine import check_engine
from chainrule.training.precision import check_precision
from chainrule.training.recipe import Recipe
from chainrule.training.tensorboard import import_writer
from chainrule.training.worker_pool import check_workers


def check_recipe(recipe: Recipe, architecture: str, module: ModuleType, config: Any, tensorboard: bool) -> None:
    check_precision(recipe.precision)
    check_workers(recipe.workers)
    check_engine(recipe.engine, architecture, config)
    reads = getattr(config, "context_length", None)
    if reads is not None and recipe.window > reads:
        raise UserError(f"window must be at most the context_length, {reads}, got {recipe.window}; set both")
    if tensorboard:
        import_writer()
