"""A training for a task other than plain text, from its request to its run folder: the loop is the same."""

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from chainrule import registry
from chainrule.config import fields, override
from chainrule.data.corpus import Reading
from chainrule.errors import UserError, did_you_mean
from chainrule.runs.folder import Run, describe_files
from chainrule.runs.making import new_run
from chainrule.tasks.base import FOLDER, Material, Prepared, Task
from chainrule.training import neural
from chainrule.training.budget import SPARED_PART, measure_task
from chainrule.training.job import Job, hash_tokens
from chainrule.training.memory import keep_freed_memory
from chainrule.training.train import Request, find_model


def find_task(request: Request) -> Any:
    return registry.find("chainrule.tasks", request.task, "task")


def default_model(request: Request) -> Request:
    """The same request with its model named: the one asked for, if the task has it, or the task's own."""
    known = find_task(request).MODELS
    if request.model is not None and request.model not in known:
        raise UserError(
            f"{request.task} is not learned by {request.model}{did_you_mean(request.model, known)} "
            f"(it is by: {', '.join(known)})"
        )
    return replace(request, model=request.model or known[0])


def train_task(request: Request, path: Path) -> Run:
    request = default_model(request)
    _refuse_reading(request)
    task, module = find_task(request), find_model(request)
    own = {name: value for name, value in request.settings.items() if name in fields(task.Settings)}
    settings = override(task.Settings(), own, f"the settings of {request.task}")
    rest = {name: value for name, value in request.settings.items() if name not in own}
    request = replace(request, settings=rest)
    plan = neural.check(request, module, tuple(fields(task.Settings)))
    material = Material(request.inputs, request.validation, request.reading, request.splitting, request.tokenization)
    with new_run(path, request.overwrite) as folder:
        (folder / FOLDER).mkdir()
        prepared = task.prepare(material, settings, folder)
        keep_freed_memory()
        job = _make_job(request, plan, module, prepared, task.Task(folder), folder)
        job.write(folder)
        neural.finish(folder, path, job, request.tensorboard)
    return Run(path, task=None)


def _refuse_reading(request: Request) -> None:
    """What says how plain text is read says nothing of other files."""
    usual = Reading()
    for name in ("unit", "field"):
        if getattr(request.reading, name) != getattr(usual, name):
            raise UserError(
                f"--{name} is for plain text, and --task {request.task} has files of its own kind; leave it out "
                "(the columns of pairs are named by --set source=NAME and --set target=NAME)"
            )


def _make_job(request: Request, plan: neural.Plan, module: Any, prepared: Prepared, task: Task, folder: Path) -> Job:
    config, recipe, why = plan.config, plan.recipe, []
    if recipe.minutes is not None and not plan.is_sized and hasattr(module, "for_budget"):
        tokens = prepared.data["text"]["train"]["tokens"]
        config, changes, why = module.for_budget(recipe.minutes * 60, tokens, task.tokenizer.vocabulary_size)
        config = override(config, plan.own, "the settings of the model")
        recipe = replace(recipe, **{name: value for name, value in changes.items() if name not in plan.asked})
    config = task.complete(config)
    seconds = None
    if recipe.minutes is not None:
        total = recipe.minutes * 60
        recipe, more = measure_task(task, module, config, recipe, "workers" in plan.asked)
        why = [*why, *more]
        seconds = max(total * (1 - SPARED_PART) - (time.time() - request.started_at), total / 20)
    assert request.model is not None
    return Job(
        architecture=request.model,
        model=asdict(config),
        recipe=asdict(recipe),
        data=prepared.data,
        notes=prepared.notes,
        started_at=request.started_at,
        overwrite=request.overwrite,
        first_shards=[0],
        weights=[1.0],
        files=describe_files(prepared.files),
        tokens=hash_tokens(folder),
        why=why,
        budget_seconds=seconds,
        task=request.task,
    )
