"""Training by gradient, from prepared data to a written run; begun, or resumed after an interruption."""

import time
from dataclasses import asdict
from pathlib import Path

from chainrule.data.batches import Batches
from chainrule.errors import Diverged, Stopped, UserError
from chainrule.kernels.waiting import considerate_waits
from chainrule.models._neural import NeuralModel
from chainrule.runs.adapter import ADAPTER, Base, save_adapter
from chainrule.runs.folder import RESUMABLE, describe_files
from chainrule.runs.records import TrainingConfig, TrainingFigures
from chainrule.runs.write import RunContents, write_run
from chainrule.tasks.base import Prepared, Task, find_task
from chainrule.training import before_after
from chainrule.training.adapt import lora_of, trunk_blocks
from chainrule.training.budget import fit_budget
from chainrule.training.callbacks import Callback, CallbackList
from chainrule.training.checkpoint import Checkpoints
from chainrule.training.context import Budget, TrainingContext
from chainrule.training.engine import Advance
from chainrule.training.example import in_brackets, show_example
from chainrule.training.job import Job, hash_tokens
from chainrule.training.journal import Journal, events
from chainrule.training.memory import keep_freed_memory
from chainrule.training.precision import note_on_precision
from chainrule.training.recipe import Recipe
from chainrule.training.report import write_report
from chainrule.training.request import Request
from chainrule.training.resolve import Resolved
from chainrule.training.start import Start, begin_from
from chainrule.training.tensorboard import TensorBoard
from chainrule.training.trainer import Trainer
from chainrule.training.trunk import TRUNK, Trunk
from chainrule.training.view import View
from chainrule.training.warn import Warner

SAMPLED_FROM_SECONDS = 60.0  # shorter trainings have no time to spare


def start_job(request: Request, resolved: Resolved, prepared: Prepared, task: Task) -> Job:
    """Fit model and recipe to the budget, and write down all that resuming needs."""
    keep_freed_memory()
    resolved = fit_budget(resolved, task, prepared, request.started_at)
    assert resolved.recipe is not None
    job = Job(
        architecture=resolved.architecture,
        model=asdict(resolved.config),
        recipe=asdict(resolved.recipe),
        data=prepared.data,
        notes=prepared.notes,
        started_at=request.started_at,
        overwrite=request.overwrite,
        files=describe_files(prepared.files),
        tokens=hash_tokens(task.folder),
        why=resolved.why,
        counting=resolved.counting,
        budget_seconds=resolved.budget_seconds,
        task=request.task,
        start=None if resolved.start is None else asdict(Start.of(resolved.start)),
    )
    job.write(task.folder)
    return job


def learn_and_write(folder: Path, path: Path, job: Job, tensorboard: bool, is_resumed: bool = False) -> None:
    """Train by gradient, evaluate, and fill the run folder; what stops before that says how to go on."""
    keep_freed_memory()
    again = f"resume with: chainrule train --resume {path}"
    try:
        _learn_and_write(folder, path, job, tensorboard, is_resumed)
    except Stopped as stop:
        raise Stopped(f"{stop}; {again}", stop.exit_code) from None
    except KeyboardInterrupt:  # outside the loop, which would have noted it and finished its step
        raise Stopped(f"interrupted; {again}", 130) from None
    except UserError as error:
        if Checkpoints(folder).steps() and not isinstance(error, Diverged):
            raise UserError(f"{error}; then {again}") from None
        if not is_resumed and not Checkpoints(folder).steps():
            (folder / RESUMABLE).unlink()  # there is nothing to go on with
        raise


def _learn_and_write(folder: Path, path: Path, job: Job, tensorboard: bool, is_resumed: bool) -> None:
    task = find_task(job.task)(folder)
    example = task.example()
    if example and not is_resumed:
        show_example(example)
    trainer = learn(folder, job, task, (TensorBoard(folder / "tensorboard"),) if tensorboard else ())
    _put_adapter_apart(trainer, job, folder)
    trained_at = time.time()
    with considerate_waits():
        validation = task.evaluate(trainer.model, trainer.recipe)
    evaluated_at = time.time()
    seconds = trainer.position.seconds
    metrics: TrainingFigures = {
        "seconds": round(seconds if is_resumed else evaluated_at - job.started_at, 3),
        "training_seconds": round(seconds, 3),
        "evaluation_seconds": round(evaluated_at - trained_at, 3),
        "steps": trainer.position.step,
        "best_step": trainer.position.best_step,
        "tokens": trainer.tokens_seen,
        "tokens_per_second": round(trainer.tokens_seen / max(seconds, 1e-9)),
        "epochs": trainer.epochs_seen,
        "validation": validation,
    }
    for source, epochs in zip(job.data.get("mixture", []), trainer.epochs_seen, strict=False):
        source["epochs"] = epochs
    notes = job.notes + write_report(folder / "metrics.jsonl", folder / "report", job.recipe["clip"])
    if job.start is not None:
        notes += _compare_with_start(job, Start(**job.start), trainer, task, folder, metrics)
    contents = RunContents(
        path.name,
        job.architecture,
        trainer.model,
        task.tokenizer,
        job.data,
        notes,
        metrics,
        job.started_at,
        training=_describe_training(job),
        task=job.task,
        uses=task.usages(path.name),
        example=in_brackets(example) if example else "",
    )
    (folder / TRUNK).unlink(missing_ok=True)
    write_run(folder, contents)


def _compare_with_start(
    job: Job, start: Start, trainer: Trainer, task: Task, folder: Path, metrics: TrainingFigures
) -> list[str]:
    """Add to the metrics what the run was that training began from; returns notes on what could not be drawn."""
    _, config, recipe = job.build()
    run = start.open()
    model = begin_from(run, config, task.tokenizer).eval()
    found = before_after.compare(model, trainer.model, task, recipe, job.data["inputs"])
    metrics["before"] = found.before
    if found.neutral is not None:
        metrics["neutral"] = found.neutral
    return before_after.write_report(folder / "report", found, metrics["validation"])


def _put_adapter_apart(trainer: Trainer, job: Job, folder: Path) -> None:
    """Of a training with LoRA: the updates in a file of their own, and in the weights of the model."""
    settings = lora_of(trainer.recipe)
    if settings is not None and job.start is not None:
        from chainrule.layers.lora import fold_lora

        base = Base(Path(job.start["run"]).name, job.start["weights"])
        save_adapter(folder / ADAPTER, trainer.model, settings, base)
        fold_lora(trainer.model)


def _describe_training(job: Job) -> TrainingConfig:
    found: TrainingConfig = {"recipe": job.recipe, "why": job.why, "counting": job.counting}
    return found if job.start is None else {**found, "start": job.start["run"]}


def learn(folder: Path, job: Job, task: Task, callbacks: tuple[Callback, ...] = ()) -> Trainer:
    """Train in this run folder, from its newest checkpoint where there is one; the trainer then has the best model."""
    _, _, recipe = job.build()
    checkpoints, journal = Checkpoints(folder), Journal(folder / "metrics.jsonl")
    newest = checkpoints.load()
    if newest:
        job.check_belongs(newest.facts["job"])
    model = job.build_model(task)
    if not newest and job.start is None:
        task.prime(model, recipe)
    context = make_context(job, task, model, recipe)
    journal.rewind(int(newest.facts["step"]) if newest else -1)
    shown = CallbackList(journal, View(), *callbacks)
    with CallbackList(shown, Warner(shown.message, recipe.clip, events(journal.path))) as callback:
        trainer = Trainer(model, recipe, context, callback, checkpoints)
        if newest:
            trainer.load(newest)
        callback.on_event(
            {
                "event": "begin",
                "architecture": job.architecture,
                "parameters": model.num_parameters,
                "vocabulary_size": task.tokenizer.vocabulary_size,
                "total_steps": context.budget.steps,
                "budget_seconds": context.budget.seconds,
                "resumed_at_step": trainer.position.step,
                "chosen": job.why,
            }
        )
        slow = note_on_precision(recipe.precision)
        for line in [*job.why, *[f"note: {note}" for note in [*checkpoints.notes, *([slow] if slow else [])]]]:
            callback.message(line)
        trainer.run()
        callback.on_event({"event": "end"})
    return trainer


def make_context(job: Job, task: Task, model: NeuralModel, recipe: Recipe) -> TrainingContext:
    batches = task.batches(recipe)
    budget = make_budget(recipe, batches, job.budget_seconds)
    has_time = budget.seconds is None or budget.seconds >= SAMPLED_FROM_SECONDS
    return TrainingContext(
        batches,
        budget,
        task.validation(recipe),
        task.bytes_per_token,
        counts=task.counts,
        describe_batch=task.describe,
        sample=task.sampler(model) if has_time else None,
        probe=task.prober(model),
        facts={"job": job.fingerprint},
        is_trained=job.start is not None,
        objective=_make_objective(task, model, recipe),
    )


def _make_objective(task: Task, model: NeuralModel, recipe: Recipe) -> Advance | None:
    """What the loop minimises, where it is not `model.advance`: the task's own objective, or, of a model whose lowest
    blocks do not learn, the same loss from what is kept of them."""
    blocks = trunk_blocks(model, recipe)
    if not blocks:
        return task.objective(model, recipe)
    trunk = Trunk(model, blocks, task.folder / TRUNK)
    return task.objective(model, recipe, trunk.hidden) or trunk.advance


def make_budget(recipe: Recipe, batches: Batches, deadline_seconds: float | None) -> Budget:
    """Tokens and epochs are turned into steps; of minutes, what is left when the loop begins."""
    if recipe.minutes is not None:
        return Budget(seconds=deadline_seconds if deadline_seconds is not None else recipe.minutes * 60)
    if recipe.steps is not None:
        return Budget(steps=recipe.steps)
    tokens = recipe.tokens
    if tokens is None:
        tokens = (recipe.epochs or 1.0) * batches.tokens_per_epoch
    return Budget(steps=max(1, round(tokens / batches.tokens_per_step)))
