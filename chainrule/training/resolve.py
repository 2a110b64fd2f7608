"""From what was asked for to what will be trained: task, architecture and complete settings, checked before any data
is read, so that a mistake costs no time."""

from dataclasses import dataclass, field, fields, replace
from types import ModuleType
from typing import Any

from chainrule import registry
from chainrule.config import fields as config_fields
from chainrule.config import override, read_file
from chainrule.data.corpus import Reading
from chainrule.errors import UserError, did_you_mean
from chainrule.evaluation.figures import CountingFigures
from chainrule.models.contract import Counts
from chainrule.runs.folder import Run
from chainrule.tasks.base import Material, Task, find_task
from chainrule.text.choice import Tokenization
from chainrule.training.defaults import DEFAULT_MINUTES, default_recipe, finetuning_recipe, micro_batches
from chainrule.training.recipe import BEGINS_FROM_RUN, BUDGETS, Recipe
from chainrule.training.request import Request
from chainrule.training.start import config_of, open_start

RECIPE_FIELDS = {each.name for each in fields(Recipe)}
MADE_OF_RUNS = {  # architectures that are made of other models, and how
    "mix": "chainrule mix RUN RUN",
    "cache": "chainrule mix RUN RUN --cache",
    "ensemble": "chainrule train TEXT --minutes 5",
    "tokennetwork": "chainrule train TEXT --from RUN --minutes 5, which makes one as a part of an ensemble",
    "wordnetwork": "chainrule train TEXT --minutes 5, which makes one as a part of an ensemble",
}


@dataclass(frozen=True)
class Resolved:
    """A request with everything looked up and filled in; the budget may still change config and recipe."""

    task: type[Task]
    task_settings: Any
    architecture: str
    module: ModuleType
    config: Any  # of the model
    recipe: Recipe | None  # None: the model counts, and has no use for one
    chosen: dict[str, Any] = field(default_factory=dict)  # settings of the recipe that the user named
    chosen_for_model: dict[str, Any] = field(default_factory=dict)  # settings of the model that the user named
    is_sized: bool = False  # whether the user named a size or gave a file of settings
    why: list[str] = field(default_factory=list)  # what was chosen for the user, and for what reason
    counting: CountingFigures | None = None  # of a budget: what it has to beat
    budget_seconds: float | None = None  # of --minutes, what is left for the training loop
    start: Run | None = None  # whose weights training begins from


def resolve(request: Request) -> Resolved:
    task = find_task(request.task)
    _refuse_reading(request, task)
    if request.start is None:
        _refuse_without_start(request)
    start = None if request.start is None else open_start(request.start)
    if start is None and task.needs_run:
        raise UserError(
            f"the task {request.task} goes on training a run; name one with --from (start= in Python), such as one of "
            "--task dialogue or an imported one"
        )
    if start is not None:
        if not task.can_begin_from_run:
            raise UserError(f"the task {request.task} trains a model from nothing; it cannot begin from a run")
        request = _with_model_of(start, request)
    architecture, module = _find_model(request, task)
    counts = issubclass(module.Model, Counts)
    if counts:
        _refuse_budget(request, task, architecture)
    settings = _split_settings(request, task, module, architecture, set() if counts else RECIPE_FIELDS)
    if start is None:
        config = _resolve_config(request, module, architecture, settings.model)
    else:
        config = config_of(start, settings.model)
    is_sized = request.size is not None or request.config is not None or start is not None
    if counts:
        return Resolved(task, settings.task, architecture, module, config, None, is_sized=is_sized)
    recipe, chosen = _resolve_recipe(request, task, module, architecture, config, settings)
    task.check_recipe(recipe)
    return Resolved(
        task, settings.task, architecture, module, config, recipe, chosen, settings.model, is_sized, start=start
    )


def material(request: Request, resolved: Resolved) -> Material:
    """What the task needs to know to prepare its data."""
    return Material(
        request.inputs,
        request.validation,
        request.reading,
        request.splitting,
        request.tokenization,
        resolved.module.DEFAULT_TOKENIZER,
        reads_once=resolved.recipe is None,
        tokenizer=None if resolved.start is None else resolved.start.tokenizer,
        context_length=None if resolved.start is None else getattr(resolved.config, "context_length", None),
    )


def _refuse_without_start(request: Request) -> None:
    """Settings that only such training has; the file of settings of another run names them at their defaults."""
    named = {name: value for name, value in request.settings.items() if name in BEGINS_FROM_RUN}
    asked, usual = override(Recipe(), named, "the settings of training"), Recipe()
    name = next((each for each in named if getattr(asked, each) != getattr(usual, each)), None)
    if name is not None:
        raise UserError(f"{name} is for training that begins from a run; name one with --from (start= in Python)")


def _with_model_of(start: Run, request: Request) -> Request:
    """The request for the architecture of the run that training begins from, with whose tokenizer the text is read."""
    if request.model not in (None, start.architecture):
        raise UserError(f"'{start.path}' is of kind {start.architecture}, not {request.model}; leave the model out")
    for name, given in (("size", request.size), ("file of settings", request.config)):
        if given is not None:
            raise UserError(f"the model is that of '{start.path}', so it takes no {name}; leave it out")
    if request.tokenization != Tokenization():
        raise UserError(f"the tokenizer is that of '{start.path}'; leave out all options of the tokenizer")
    return replace(request, model=start.architecture)


def _refuse_reading(request: Request, task: type[Task]) -> None:
    """Options of how plain text is read mean nothing to a task with files of its own kind."""
    usual = Reading()
    for name in ("unit", "field"):
        if name not in task.reading_options and getattr(request.reading, name) != getattr(usual, name):
            columns = " (the columns of pairs are the settings source and target)"
            of_pairs = columns if "source" in config_fields(task.settings_class) else ""
            raise UserError(
                f"{name} is for plain text and has no meaning for the task {request.task}; leave it out{of_pairs}"
            )


def _find_model(request: Request, task: type[Task]) -> tuple[str, ModuleType]:
    has_budget = any(name in request.settings for name in BUDGETS)
    name = request.model or task.default_model(has_budget, request.tokenization.tokenizer)
    if name in MADE_OF_RUNS:
        raise UserError(f"the model {name} is made from other models rather than trained; use: {MADE_OF_RUNS[name]}")
    module = _module(name)
    task.check_model(name, module)
    return name, module


@dataclass(frozen=True)
class _Settings:
    """The user's settings, by what they belong to."""

    task: Any
    model: dict[str, Any]
    recipe: dict[str, Any]


def _split_settings(
    request: Request, task: type[Task], module: ModuleType, architecture: str, of_recipe: set[str]
) -> _Settings:
    """Settings of the task, the model and the recipe share one set of names."""
    of_task, of_model = config_fields(task.settings_class), config_fields(module.Config)
    for name in request.settings:
        if of_recipe and name not in {*of_task, *of_model, *of_recipe}:
            _refuse_counting_with_budget(request, task, name)
            hint = did_you_mean(name, [*of_model, *of_recipe, *of_task])
            first = f"of {request.task}: {', '.join(of_task)}; " if of_task else ""
            known = f" ({first}of {architecture}: {', '.join(of_model)}; of training: {', '.join(sorted(of_recipe))})"
            raise UserError(f"unknown setting '{name}'{hint or known}")
    for_task = {name: value for name, value in request.settings.items() if name in of_task}
    rest = {name: value for name, value in request.settings.items() if name not in of_task}
    if not of_recipe and "seed" not in of_model:
        rest.pop("seed", None)  # of a model that counts: nothing in it is random
    for_recipe = {name: value for name, value in rest.items() if name in of_recipe}
    for_model = {name: value for name, value in rest.items() if name not in of_recipe}
    settings = override(task.settings_class(), for_task, f"the settings of {request.task}")
    return _Settings(settings, for_model, for_recipe)


def _refuse_counting_with_budget(request: Request, task: type[Task], name: str) -> None:
    """A setting of the model that counts, beside a budget, for which another model is chosen."""
    counting = task.default_model(False, request.tokenization.tokenizer)
    budget = next((each for each in BUDGETS if each in request.settings), None)
    if request.model or budget is None or name not in config_fields(_module(counting).Config):
        return
    raise UserError(
        f"{name} is a setting of the model {counting}, which counts its text once and has no use for {budget}; "
        "leave out one of the two"
    )


def _module(name: str) -> ModuleType:
    return registry.find("chainrule.models", name, "model", without=(*registry.NOT_NAMED, *MADE_OF_RUNS))


def _resolve_config(request: Request, module: ModuleType, architecture: str, named: dict[str, Any]) -> Any:
    """Defaults < size < file < settings by name."""
    size = request.size or module.DEFAULT_SIZE
    if size not in module.SIZES:
        sizes = ", ".join(module.SIZES)
        raise UserError(
            f"unknown size '{size}' of {architecture}{did_you_mean(size, module.SIZES)} (there are: {sizes})"
        )
    config = module.SIZES[size]
    if request.config:
        config = override(config, read_file(request.config), f"'{request.config}'")
    if named.get("smoothing") == "imported":
        raise UserError("smoothing 'imported' is for models read from a file; choose one that is estimated from text")
    return override(config, named, f"the settings of {architecture}")


def _refuse_budget(request: Request, task: type[Task], architecture: str) -> None:
    for name in BUDGETS:
        if name in request.settings:
            raise UserError(
                f"{architecture} counts its text once, so it takes no {name}; leave that out, or choose a "
                f"model that is trained by gradient descent, such as {task.default_model(True, 'auto')}"
            )
    if request.tensorboard:
        raise UserError(
            f"{architecture} counts its text once, so there is nothing for TensorBoard to show; leave tensorboard out"
        )


def _resolve_recipe(
    request: Request, task: type[Task], module: ModuleType, architecture: str, config: Any, settings: _Settings
) -> tuple[Recipe, dict[str, Any]]:
    """The recipe, and the settings of it that were named, a default budget among them where there is none."""
    from chainrule.training.checks import check_recipe

    chosen = dict(settings.recipe)
    if not any(name in chosen for name in BUDGETS):
        chosen["minutes"] = DEFAULT_MINUTES
    optimizer, where = chosen.get("optimizer"), "the settings of training"
    if request.start is None:
        recipe = override(default_recipe(module, config, optimizer), chosen, where)
    else:
        lora = override(Recipe(), {"lora": chosen.get("lora", False)}, where).lora
        usual = finetuning_recipe(module, config, optimizer, lora)
        recipe = override(replace(usual, **task.suggest(usual, settings.task)), chosen, where)
        if "micro_batches" not in chosen:
            recipe = replace(recipe, micro_batches=micro_batches(config, recipe.batch_size, recipe.window))
    check_recipe(recipe, architecture, module, config, request.tensorboard)
    return recipe, chosen
