"""Training from request to run folder, for every task: resolve, prepare, fit the budget, train, evaluate, write.

request ──resolve──▶ settings ──task.prepare──▶ data on disk ──fit_budget──▶ job ──learn──▶ model ──▶ run
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from chainrule.errors import UserError
from chainrule.runs.folder import HOME, RESUMABLE, Run, unfinished
from chainrule.runs.making import check_free, free_name, new_run
from chainrule.runs.records import TrainingFigures
from chainrule.runs.write import RunContents, write_run
from chainrule.tasks.base import Prepared, Task
from chainrule.training.ensemble import is_open, train_ensemble
from chainrule.training.finetune import finetune, is_within_minutes
from chainrule.training.network_choice import choose_network, leaves_network_open
from chainrule.training.request import Request, default_name
from chainrule.training.resolve import Resolved, material, resolve


def train(request: Request) -> Run:
    """Train, and return the run, whole on disk. A failure leaves nothing behind, or a training that can be resumed."""
    path = request.path or free_name(default_name(request.inputs[0]), request.overwrite)
    if is_open(request):
        return train_ensemble(replace(request, path=path), train)
    if is_within_minutes(request):
        return finetune(replace(request, path=path), train)
    check_free(path, request.overwrite)
    if leaves_network_open(request):
        request = choose_network(request, train)
    resolved = resolve(request)
    given = material(request, resolved)
    data = resolved.task.open_data(given, resolved.task_settings)  # before an older run of that name is touched
    with new_run(path, request.overwrite) as folder:
        prepared = resolved.task.prepare(given, resolved.task_settings, data, folder)
        task = resolved.task(folder)
        if resolved.recipe is None:
            count_and_write(request, resolved, prepared, task, path)
        else:
            from chainrule.training.learn import learn_and_write, start_job  # brings in torch

            job = start_job(request, resolved, prepared, task)
            learn_and_write(folder, path, job, request.tensorboard)
    return Run(path, task=None)


def resume(name: str | Path, settings: dict[str, Any], tensorboard: bool = False) -> Run:
    """Go on with an unfinished training exactly where its newest checkpoint stands. `settings` that are given again
    must be the ones it began with, except for the engine."""
    from chainrule.training.job import Job
    from chainrule.training.learn import learn_and_write

    path = Path(name)
    if not path.name:
        raise UserError(f"'{name}' is not the name of a run; give the name that training began with")
    if not unfinished(path).exists() and unfinished(HOME / path).exists():
        path = HOME / path
    can_resume = (unfinished(path) / RESUMABLE).is_file()
    with new_run(path, overwrite=can_resume and Job.read(unfinished(path)).overwrite, resume=True) as folder:
        job = Job.read(folder)
        if "engine" in settings:
            job = job.on_engine(settings["engine"])
            job.write(folder)
        job.check_settings(settings)
        job.check_unchanged(folder)
        learn_and_write(folder, path, job, tensorboard, is_resumed=True)
    return Run(path, task=None)


def count_and_write(request: Request, resolved: Resolved, prepared: Prepared, task: Task, path: Path) -> None:
    """Fill the run folder of a model that counts."""
    read_at = time.time()
    tokenizer = task.tokenizer
    model = task.fit(resolved.module.Model(resolved.config, tokenizer.vocabulary_size, tokenizer.eos))
    fitted_at = time.time()
    metrics: TrainingFigures = {
        "seconds": round(fitted_at - request.started_at, 3),
        "reading_seconds": round(read_at - request.started_at, 3),
        "training_seconds": round(fitted_at - read_at, 3),
        "tokens": prepared.data["text"]["train"]["tokens"],
        "validation": task.evaluate(model, None),
    }
    contents = RunContents(
        path.name,
        resolved.architecture,
        model,
        tokenizer,
        prepared.data,
        prepared.notes,
        metrics,
        request.started_at,
        task=request.task,
        uses=task.usages(path.name),
    )
    write_run(task.folder, contents)
