"""`chainrule train`: text in, run folder out."""

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from chainrule import registry
from chainrule.config import override, read_file, to_json
from chainrule.data.corpus import Reading
from chainrule.data.shards import Part, TokenShards
from chainrule.data.split import Splitting
from chainrule.errors import UserError, did_you_mean
from chainrule.evaluation.stream import evaluate_shards
from chainrule.progress import progress
from chainrule.runs.folder import Run
from chainrule.runs.making import check_free, free_name, new_run
from chainrule.runs.records import DataConfig, TrainingFigures
from chainrule.runs.write import RunContents, write_run
from chainrule.tasks.base import LANGUAGE
from chainrule.training.prepare import Prepared, TextSource, Tokenization, prepare
from chainrule.training.recipe import BUDGETS

DEFAULT_CORPUS = "builtin:python-docs"
DEFAULT_MODEL = "ngram"
BUDGET_MODEL = "transformer"
MADE_OF_RUNS = {"mix": "", "cache": " --cache"}  # by `chainrule mix`, with what else it is told
BUDGET_MODELS = {"words": "lstm"}  # by tokenizer, where another was measured to be better


@dataclass(frozen=True)
class Request:
    """Everything `chainrule train` was asked for."""

    inputs: tuple[str, ...] = (DEFAULT_CORPUS,)
    task: str = LANGUAGE
    validation: tuple[str, ...] = ()
    model: str | None = None  # None: ngram, or the best that a budget can buy
    size: str | None = None
    config: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    reading: Reading = field(default_factory=Reading)
    splitting: Splitting = field(default_factory=Splitting)
    tokenization: Tokenization = field(default_factory=Tokenization)
    path: Path | None = None
    overwrite: bool = False
    tensorboard: bool = False
    started_at: float = field(default_factory=time.time)


def model_name(request: Request) -> str:
    """A budget asks for a model that learns by gradient; without one, counting takes seconds."""
    if request.model is not None:
        return request.model
    if not any(name in request.settings for name in BUDGETS):
        return DEFAULT_MODEL
    return BUDGET_MODELS.get(request.tokenization.tokenizer, BUDGET_MODEL)


def find_model(request: Request) -> Any:
    name = model_name(request)
    if name in MADE_OF_RUNS:
        raise UserError(
            f"a {name} is not trained on text but made of runs; use: chainrule mix RUN RUN{MADE_OF_RUNS[name]}"
        )
    module = registry.find("chainrule.models", name, "model", without=(*registry.NOT_NAMED, *MADE_OF_RUNS))
    task = getattr(module, "TASK", LANGUAGE)
    if request.task == LANGUAGE != task:
        raise UserError(
            f"{name} does not learn plain text but the task {task}; name it: chainrule train --task {task} FILE"
        )
    return module


def resolve_model(request: Request, module: Any, also: Collection[str] = ()) -> Any:
    """The complete configuration; settings named in `also` belong to something else."""
    name = model_name(request)
    size = request.size or module.DEFAULT_SIZE
    if size not in module.SIZES:
        sizes = ", ".join(module.SIZES)
        raise UserError(f"unknown size '{size}' of {name}{did_you_mean(size, module.SIZES)} (there are: {sizes})")
    config = module.SIZES[size]
    if request.config:
        config = override(config, read_file(request.config), f"'{request.config}'")
    if request.settings.get("smoothing") == "imported":
        raise UserError("smoothing 'imported' is for models read from a file; choose one that is estimated from text")
    own = {key: value for key, value in request.settings.items() if key not in also}
    return override(config, own, f"the settings of {name}")


def default_name(text: str) -> str:
    """What is made of a text is called by its first name: poems of path/poems.txt."""
    text = text.partition("=")[0]
    if text == "-":
        return "stdin"
    if text.startswith("builtin:"):
        return text.removeprefix("builtin:")
    return Path(text.rstrip("/*") or "text").name.partition(".")[0] or "text"


def train(request: Request) -> Run:
    """The run, whole on disk; or an error, and nothing, or what can be gone on with."""
    path = request.path or free_name(default_name(request.inputs[0]))
    check_free(path, request.overwrite)
    if request.task != LANGUAGE:
        from chainrule.training.tasked import train_task

        return train_task(request, path)
    module = find_model(request)
    is_counting = hasattr(module.Model, "fit")
    if is_counting:
        _refuse_budget(request)
        resolve_model(request, module)  # bad settings are better refused before any text is read
    else:
        from chainrule.training import neural

        plan = neural.check(request, module)
    source = TextSource(
        request.inputs, request.reading, request.splitting, request.validation, may_repeat=not is_counting
    )
    with new_run(path, request.overwrite) as folder:
        prepared = prepare(source, request.tokenization, folder / "tokens", module.DEFAULT_TOKENIZER)
        data = _describe_data(request, source, prepared)
        if is_counting:
            count(request, module, prepared, data, folder, path.name)
        else:
            neural.begin(request, plan, module, source, prepared, data, folder, path)
    return Run(path)


def _refuse_budget(request: Request) -> None:
    for name in BUDGETS:
        if name in request.settings:
            raise UserError(
                f"{model_name(request)} counts its text once, so it takes no --{name}; leave that out, or choose a "
                f"model that learns by gradient (--model {BUDGET_MODEL})"
            )
    if request.tensorboard:
        raise UserError(f"{model_name(request)} counts its text once: there is nothing for --tensorboard to show")


def count(request: Request, module: Any, prepared: Prepared, data: dict[str, Any], folder: Path, name: str) -> None:
    """Fill the run of a model that counts."""
    read_at = time.time()
    config = resolve_model(request, module)
    model = fit(module, config, prepared, folder / "tokens")
    fitted_at = time.time()
    metrics: TrainingFigures = {
        "seconds": round(fitted_at - request.started_at, 3),
        "reading_seconds": round(read_at - request.started_at, 3),
        "training_seconds": round(fitted_at - read_at, 3),
        "tokens": prepared.parts["train"].tokens,
        "validation": evaluate_shards(model, prepared.tokenizer, TokenShards(folder / "tokens", "validation")),
    }
    contents = RunContents(
        name, model_name(request), model, prepared.tokenizer, cast(DataConfig, data), prepared.notes, metrics,
        request.started_at,
    )  # fmt: skip
    write_run(folder, contents)


def fit(module: Any, config: Any, prepared: Prepared, folder: Path) -> Any:
    """A counting model sees every shard once; the validation text may set its interpolation weights."""
    tokenizer = prepared.tokenizer
    model = module.Model(config, tokenizer.vocabulary_size, tokenizer.eos)
    shards, held_out = TokenShards(folder, "train"), TokenShards(folder, "validation")
    with progress("counting", shards.part.tokens, "tokens") as advance:
        model.fit(_streams(shards), held_out.tokens(0) if held_out.part.documents else None, advance)
    return model


def _streams(shards: TokenShards) -> Iterator[Any]:
    for shard in range(len(shards)):
        yield shards.tokens(shard)


def _describe_data(request: Request, source: TextSource, prepared: Prepared) -> dict[str, Any]:
    data: dict[str, Any] = {
        "inputs": list(request.inputs),
        "validation": list(request.validation),
        **to_json(request.reading),
        "unit": prepared.unit,
        **to_json(request.splitting),
        "splits": [to_json(split) for split in source.splits],
        "text": {name: _describe_part(part) for name, part in prepared.parts.items()},
    }
    if prepared.mixture:
        epochs = prepared.mixture.epochs(prepared.mixture.tokens_without_repeats)
        data["mixture"] = [
            {"name": each.name, "bytes": each.size, "weight": share, "epochs": epochs[each.name]}
            for each, share in zip(prepared.mixture.sources, prepared.mixture.shares, strict=True)
        ]
    return data


def _describe_part(part: Part) -> dict[str, Any]:
    return {"documents": part.documents, "tokens": part.tokens, "bytes": part.text_bytes, "hash": part.text_hash}
