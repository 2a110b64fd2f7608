"""A training by gradient from its request to its run folder, begun or resumed."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

import numpy as np
from torch import nn

from chainrule import registry
from chainrule.config import fields as config_fields
from chainrule.config import override
from chainrule.data.batches import StreamBatches, TrainingBatch
from chainrule.data.shards import TokenShards
from chainrule.errors import Diverged, Stopped, UserError, did_you_mean
from chainrule.evaluation.figures import Evaluation
from chainrule.evaluation.stream import evaluate_shards, spread
from chainrule.models._neural import NeuralModel
from chainrule.runs.folder import HOME, RESUMABLE, Run, describe_files, unfinished
from chainrule.runs.making import new_run
from chainrule.runs.records import DataConfig, TrainingFigures
from chainrule.runs.write import RunContents, write_run
from chainrule.tasks.base import FOLDER, LANGUAGE, Task
from chainrule.training.budget import Choice, Text, allot, choose
from chainrule.training.callbacks import Record
from chainrule.training.checkpoint import Checkpoints
from chainrule.training.defaults import DEFAULT_MINUTES, default_recipe
from chainrule.training.engine import check_engine
from chainrule.training.expectation import expect
from chainrule.training.job import Job, hash_tokens
from chainrule.training.learn import build_model, learn, make_windows
from chainrule.training.memory import keep_freed_memory
from chainrule.training.precision import check_precision
from chainrule.training.prepare import Prepared, TextSource
from chainrule.training.probe import Contexts
from chainrule.training.recipe import BUDGETS, Recipe
from chainrule.training.report import write_report
from chainrule.training.tensorboard import TensorBoard, import_writer
from chainrule.training.train import Request, model_name, resolve_model
from chainrule.training.vectors import vectors_by_counting
from chainrule.training.worker_pool import check_workers

RECIPE_FIELDS = {field.name for field in fields(Recipe)}
SAMPLE_TOKENS = 120


@dataclass(frozen=True)
class Plan:
    """What was asked for, checked before any text is read."""

    config: Any
    recipe: Recipe
    asked: dict[str, Any]  # settings of training that were named
    own: dict[str, Any]  # settings of the model that were named
    is_sized: bool  # by name or by file


def check(request: Request, module: Any, others: tuple[str, ...] = ()) -> Plan:
    """Refuse what cannot be, and fill in the rest; `others` are names of settings that a task has taken."""
    _check_names(request, module, others)
    asked = {key: value for key, value in request.settings.items() if key in RECIPE_FIELDS}
    own = {key: value for key, value in request.settings.items() if key not in RECIPE_FIELDS}
    asked.setdefault("seed", request.splitting.seed)
    if not any(name in asked for name in BUDGETS):
        asked["minutes"] = DEFAULT_MINUTES
    config = resolve_model(request, module, RECIPE_FIELDS)
    recipe = override(default_recipe(module, config, asked.get("optimizer")), asked, "the settings of training")
    check_precision(recipe.precision, module.Model.carries_state)
    check_workers(recipe.workers)
    check_engine(recipe.engine, model_name(request), config)
    reads = getattr(config, "context_length", None)
    if reads is not None and recipe.window > reads:
        raise UserError(f"window must be at most the context_length, {reads}, got {recipe.window}; set both")
    if request.tensorboard:
        import_writer()
    return Plan(config, recipe, asked, own, request.size is not None or request.config is not None)


def begin(
    request: Request,
    plan: Plan,
    module: Any,
    source: TextSource,
    prepared: Prepared,
    data: dict[str, Any],
    folder: Path,
    path: Path,
) -> None:
    keep_freed_memory()
    choice = make_choice(plan, module, prepared, folder, request.started_at)
    prepared.tokenizer.save(folder / "tokenizer.json")
    mixture = prepared.mixture
    job = Job(
        architecture=model_name(request),
        model=asdict(choice.config),
        recipe=asdict(choice.recipe),
        data=data,
        notes=prepared.notes,
        started_at=request.started_at,
        overwrite=request.overwrite,
        first_shards=list(prepared.first_shards),
        weights=[each.weight for each in mixture.sources] if mixture else [1.0],
        files=describe_files([each.path for corpus in source.corpora for each in corpus.files]),
        tokens=hash_tokens(folder),
        why=choice.why,
        budget_seconds=choice.seconds,
    )
    job.write(folder)
    finish(folder, path, job, request.tensorboard)


def make_choice(plan: Plan, module: Any, prepared: Prepared, folder: Path, started_at: float) -> Choice:
    """Sizes and rates: as asked for, and for the rest what suits the text, the time and this machine."""
    choice = Choice(plan.config, plan.recipe, [])
    if plan.recipe.minutes is None:
        return choice
    shards, held_out = TokenShards(folder / "tokens", "train"), TokenShards(folder / "tokens", "validation")
    text = Text(shards, prepared.parts["validation"].tokens, prepared.tokenizer)
    if not plan.is_sized and plan.recipe.engine == "torch" and hasattr(module, "for_budget"):
        choice = choose(module, plan.recipe, plan.asked, plan.own, text)
        choice.why.extend(expect(shards, held_out, prepared.tokenizer, plan.recipe.minutes))
    return allot(choice, module, text, plan.asked, started_at)


def _check_names(request: Request, module: Any, others: tuple[str, ...]) -> None:
    """Settings of the model and of training share one set of names."""
    own = config_fields(module.Config)
    for name in request.settings:
        if name not in own and name not in RECIPE_FIELDS:
            hint = did_you_mean(name, [*own, *RECIPE_FIELDS, *others])
            of_task = f"of {request.task}: {', '.join(others)}; " if others else ""
            raise UserError(
                f"unknown setting '{name}'{hint} ({of_task}of {model_name(request)}: {', '.join(own)}; "
                f"of training: {', '.join(sorted(RECIPE_FIELDS))})"
            )


def resume(name: str | Path, asked: dict[str, Any], tensorboard: bool = False) -> Run:
    """Go on with an unfinished training exactly where its newest checkpoint stands."""
    path = Path(name)
    if not path.name:
        raise UserError(f"'{name}' is no name of a run; give the one that training was begun with")
    if not unfinished(path).exists() and unfinished(HOME / path).exists():
        path = HOME / path
    can_resume = (unfinished(path) / RESUMABLE).is_file()
    with new_run(path, overwrite=can_resume and Job.read(unfinished(path)).overwrite, resume=True) as folder:
        keep_freed_memory()
        job = Job.read(folder)
        if "engine" in asked:
            job = job.on_engine(asked["engine"])
            job.write(folder)
        job.check_settings(asked)
        job.check_unchanged(folder)
        finish(folder, path, job, tensorboard, is_resumed=True)
    return Run(path, task=None)


def finish(folder: Path, path: Path, job: Job, tensorboard: bool, is_resumed: bool = False) -> None:
    """Train, then fill the folder of the run; what stops before that says how to go on."""
    again = f"go on with: chainrule train --resume {path}"
    try:
        _train_and_write(folder, path, job, tensorboard, is_resumed)
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


def _train_and_write(folder: Path, path: Path, job: Job, tensorboard: bool, is_resumed: bool) -> None:
    callbacks = (TensorBoard(folder / "tensorboard"),) if tensorboard else ()
    task = open_task(folder, job)
    learned = learn(folder, job, task, callbacks)
    trained_at = time.time()
    validation = task.evaluate(learned.model, job.build()[2])
    evaluated_at = time.time()
    metrics: TrainingFigures = {
        "seconds": round(learned.seconds if is_resumed else evaluated_at - job.started_at, 3),
        "training_seconds": round(learned.seconds, 3),
        "evaluation_seconds": round(evaluated_at - trained_at, 3),
        "steps": learned.steps,
        "best_step": learned.best_step,
        "tokens": learned.tokens,
        "tokens_per_second": round(learned.tokens / max(learned.seconds, 1e-9)),
        "epochs": learned.epochs,
        "validation": cast(Evaluation | None, validation),
    }
    data = cast(DataConfig, job.data)
    for source, epochs in zip(data.get("mixture", []), learned.epochs, strict=False):
        source["epochs"] = epochs
    notes = job.notes + write_report(folder / "metrics.jsonl", folder / "report", job.recipe["clip"])
    contents = RunContents(
        path.name, job.architecture, learned.model, task.tokenizer, data, notes, metrics, job.started_at,
        training={"recipe": job.recipe, "why": job.why}, task=job.task, uses=_uses(job.task, path.name),
    )  # fmt: skip
    write_run(folder, contents)


def _uses(task: str, name: str) -> list[str]:
    """The command that a run of another task than language is for."""
    if task == LANGUAGE:
        return []
    return [f"chainrule {registry.find('chainrule.tasks', task, 'task').COMMAND} {name}"]


def open_task(folder: Path, job: Job) -> Task:
    """What was prepared in the folder of a training."""
    if job.task == LANGUAGE:
        return Language(folder, job)
    task: Task = registry.find("chainrule.tasks", job.task, "task").Task(folder)
    return task


class Language(Task):
    """The task of every run that names none: each token is told by those before it. Shards, mixed as the job says."""

    def __init__(self, folder: Path, job: Job):
        super().__init__(folder)
        self._job = job
        self._shards, self._held_out = (TokenShards(folder / FOLDER, name) for name in ("train", "validation"))
        part = self._held_out.part
        self.bytes_per_token = part.text_bytes / max(part.tokens, 1) if self.tokenizer.is_lossless else None
        self.counts = np.zeros(self.tokenizer.vocabulary_size, np.int64)
        for shard in range(len(self._shards)):
            self.counts += np.bincount(self._shards.tokens(shard), minlength=len(self.counts))

    def build(self, module: Any, config: Any, seed: int) -> NeuralModel:
        assert self.counts is not None
        return build_model(module, config, self.tokenizer, seed, self.counts)

    def prime(self, model: NeuralModel, recipe: Recipe) -> None:
        """Embeddings begin as large as the random ones that they replace."""
        if recipe.first_vectors != "counted":
            return
        embedding, counts = model.get_submodule("embedding"), self.counts
        assert isinstance(embedding, nn.Embedding) and counts is not None
        table = embedding.weight.detach()[: len(counts)]
        streams = (self._shards.tokens(shard) for shard in range(len(self._shards)))
        table.copy_(vectors_by_counting(streams, counts, table.shape[1]) * table.std())

    def batches(self, recipe: Recipe) -> StreamBatches:
        return make_windows(self._job, recipe, self._shards)

    def validation(self, recipe: Recipe) -> np.ndarray | None:
        """The part of the validation text that is looked at while training: pieces from all over it."""
        if not self._held_out.part.documents:
            return None
        return spread(self._held_out.tokens(0), recipe.evaluation_tokens)

    def evaluate(self, model: NeuralModel, recipe: Recipe) -> dict[str, Any] | None:
        found = evaluate_shards(model, self.tokenizer, self._held_out, recipe.final_tokens)
        return cast(dict[str, Any] | None, found)

    def describe(self, window: TrainingBatch) -> str:
        return f"a batch that begins with {self.tokenizer.decode(window.inputs[0][:12])!r}"

    def sampler(self, model: NeuralModel) -> Callable[[], str]:
        from chainrule.generation import Sampling, sample

        settings = Sampling(temperature=0.8, max_tokens=SAMPLE_TOKENS, seed=0)
        return lambda: sample(model, self.tokenizer, "", settings)[0].text

    def prober(self, model: NeuralModel) -> Callable[[], list[Record]] | None:
        shards = self._held_out if self._held_out.part.documents else self._shards
        contexts = Contexts.choose(shards.tokens(0), self.tokenizer.eos)
        return None if contexts is None else lambda: contexts.look(model, self.tokenizer)
