"""A training by gradient from its request to its run folder, begun or resumed."""

import time
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from chainrule.config import fields as config_fields
from chainrule.config import override
from chainrule.data.shards import TokenShards
from chainrule.errors import Stopped, UserError, did_you_mean
from chainrule.evaluation.stream import evaluate_shards
from chainrule.runs.folder import HOME, RESUMABLE, Run, unfinished
from chainrule.runs.making import new_run
from chainrule.runs.write import write_run
from chainrule.text.base import Tokenizer
from chainrule.training.budget import Choice, Text, allot, choose
from chainrule.training.checkpoint import Checkpoints
from chainrule.training.defaults import DEFAULT_MINUTES, default_recipe
from chainrule.training.expectation import expect
from chainrule.training.job import Job, describe_files, hash_tokens
from chainrule.training.learn import learn
from chainrule.training.memory import keep_freed_memory
from chainrule.training.prepare import Prepared, TextSource
from chainrule.training.recipe import BUDGETS, Recipe
from chainrule.training.report import write_report
from chainrule.training.train import Request, model_name, resolve_model
from chainrule.training.watch import Watcher

RECIPE_FIELDS = {field.name for field in fields(Recipe)}


def begin(
    request: Request,
    module: Any,
    source: TextSource,
    prepared: Prepared,
    data: dict[str, Any],
    folder: Path,
    path: Path,
) -> None:
    keep_freed_memory()
    choice = make_choice(request, module, prepared, folder)
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
    )
    job.write(folder)
    finish(folder, path, job, choice, request.tensorboard)


def make_choice(request: Request, module: Any, prepared: Prepared, folder: Path) -> Choice:
    """Sizes and rates: as asked for, and for the rest what suits the text, the time and this machine."""
    _check_names(request, module)
    asked = {key: value for key, value in request.settings.items() if key in RECIPE_FIELDS}
    asked.setdefault("seed", request.splitting.seed)
    if not any(name in asked for name in BUDGETS):
        asked["minutes"] = DEFAULT_MINUTES
    _, config = resolve_model(request, module, RECIPE_FIELDS)
    is_sized = request.size is not None or request.config is not None or not request.settings.keys() <= RECIPE_FIELDS
    recipe = override(default_recipe(model_name(request), config), asked, "the settings of training")
    if recipe.minutes is None:
        return Choice(config, recipe, [])
    shards = TokenShards(folder / "tokens", "train")
    text = Text(shards, prepared.parts["validation"].tokens, prepared.tokenizer)
    choice = choose(module, config, recipe, asked, is_sized, text)
    choice.why.extend(expect(shards, TokenShards(folder / "tokens", "validation"), prepared.tokenizer, recipe.minutes))
    return allot(choice, module, text, request.started_at)


def _check_names(request: Request, module: Any) -> None:
    """Settings of the model and of training share one set of names."""
    own = config_fields(module.Config)
    for name in request.settings:
        if name not in own and name not in RECIPE_FIELDS:
            hint = did_you_mean(name, [*own, *RECIPE_FIELDS])
            raise UserError(
                f"unknown setting '{name}'{hint} (of {model_name(request)}: {', '.join(own)}; "
                f"of training: {', '.join(sorted(RECIPE_FIELDS))})"
            )


def resume(name: str | Path, asked: dict[str, Any], tensorboard: bool = False) -> Run:
    """Go on with an unfinished training exactly where its newest checkpoint stands."""
    path = Path(name)
    if not unfinished(path).exists() and unfinished(HOME / path).exists():
        path = HOME / path
    can_resume = (unfinished(path) / RESUMABLE).is_file()
    with new_run(path, overwrite=can_resume and Job.read(unfinished(path)).overwrite, resume=True) as folder:
        keep_freed_memory()
        job = Job.read(folder)
        job.check_settings(asked)
        job.check_unchanged(folder)
        finish(folder, path, job, None, tensorboard)
    return Run(path)


def finish(folder: Path, path: Path, job: Job, choice: Choice | None, tensorboard: bool) -> None:
    """Train, then fill the folder of the run; what stops before that says how to go on."""
    again = f"go on with: chainrule train --resume {path}"
    try:
        _train_and_write(folder, path, job, choice, tensorboard)
    except Stopped as stop:
        raise Stopped(f"{stop}; {again}", stop.exit_code) from None
    except KeyboardInterrupt:  # outside the loop, which would have noted it and finished its step
        raise Stopped(f"interrupted; {again}", 130) from None
    except UserError as error:
        if Checkpoints(folder).steps():
            raise UserError(f"{error}; then {again}") from None
        (folder / RESUMABLE).unlink()  # there is nothing to go on with
        raise


def _train_and_write(folder: Path, path: Path, job: Job, choice: Choice | None, tensorboard: bool) -> None:
    watchers = _tensorboard(folder) if tensorboard else ()
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    learned = learn(folder, job, tokenizer, choice.seconds_left if choice else None, watchers)
    trained_at = time.time()
    validation = evaluate_shards(learned.model, tokenizer, TokenShards(folder / "tokens", "validation"))
    metrics = {
        "seconds": round(time.time() - job.started_at, 3),
        "training_seconds": round(learned.seconds, 3),
        "evaluation_seconds": round(time.time() - trained_at, 3),
        "steps": learned.steps,
        "best_step": learned.best_step,
        "tokens": learned.tokens,
        "tokens_per_second": round(learned.tokens / max(learned.seconds, 1e-9)),
        "epochs": learned.epochs,
        "validation": validation,
    }
    data = job.data
    for source, epochs in zip(data.get("mixture", []), learned.epochs, strict=False):
        source["epochs"] = epochs
    notes = job.notes + write_report(folder / "metrics.jsonl", folder / "report", job.recipe["clip"])
    write_run(
        folder, path.name, job.architecture, learned.model, tokenizer, data, notes, metrics, job.started_at,
        training={"recipe": job.recipe, "why": job.why},
    )  # fmt: skip


def _tensorboard(folder: Path) -> tuple[Watcher, ...]:
    from chainrule.training.tensorboard import TensorBoard

    return (TensorBoard(folder / "tensorboard"),)
