"""`chainrule train`: text in, run folder out."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chainrule import lookup
from chainrule.config import override, read_file, to_json
from chainrule.data.corpus import Reading
from chainrule.data.shards import Part, TokenShards
from chainrule.data.split import Splitting
from chainrule.errors import UserError, did_you_mean
from chainrule.evaluation.stream import evaluate_shards
from chainrule.progress import progress
from chainrule.runs.folder import Run, check_free, free_name, new_run
from chainrule.runs.write import write_run
from chainrule.training.prepare import Prepared, TextSource, Tokenization, prepare

DEFAULT_CORPUS = "builtin:python-docs"
DEFAULT_MODEL = "ngram"


@dataclass(frozen=True)
class Request:
    """Everything `chainrule train` was asked for."""

    inputs: tuple[str, ...] = (DEFAULT_CORPUS,)
    validation: tuple[str, ...] = ()
    model: str = DEFAULT_MODEL
    size: str | None = None
    config: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    reading: Reading = field(default_factory=Reading)
    splitting: Splitting = field(default_factory=Splitting)
    tokenization: Tokenization = field(default_factory=Tokenization)
    path: Path | None = None
    overwrite: bool = False


def resolve_model(request: Request) -> tuple[Any, Any]:
    """The architecture's module and its complete configuration."""
    module = lookup.find("chainrule.models", request.model, "model")
    size = request.size or module.DEFAULT_SIZE
    if size not in module.SIZES:
        sizes = ", ".join(module.SIZES)
        raise UserError(
            f"unknown size '{size}' of {request.model}{did_you_mean(size, module.SIZES)} (there are: {sizes})"
        )
    config = module.SIZES[size]
    if request.config:
        config = override(config, read_file(request.config), f"'{request.config}'")
    if request.settings.get("smoothing") == "imported":
        raise UserError("smoothing 'imported' is for models read from a file; choose one that is estimated from text")
    return module, override(config, request.settings, f"the settings of {request.model}")


def default_path(inputs: Sequence[str]) -> Path:
    first = inputs[0].partition("=")[0]
    if first == "-":
        return free_name("stdin")
    if first.startswith("builtin:"):
        return free_name(first.removeprefix("builtin:"))
    return free_name(Path(first.rstrip("/*") or "text").name.partition(".")[0] or "text")


def train(request: Request) -> Run:
    """The run, whole on disk; or an error, and nothing."""
    module, config = resolve_model(request)
    path = request.path or default_path(request.inputs)
    check_free(path, request.overwrite)
    started_at = time.time()
    source = TextSource(request.inputs, request.reading, request.splitting, request.validation)
    with new_run(path, request.overwrite) as folder:
        prepared = prepare(source, request.tokenization, folder / "tokens", module.DEFAULT_TOKENIZER)
        read_at = time.time()
        model = fit(module, config, prepared, folder / "tokens")
        fitted_at = time.time()
        metrics = {
            "seconds": round(fitted_at - started_at, 3),
            "reading_seconds": round(read_at - started_at, 3),
            "training_seconds": round(fitted_at - read_at, 3),
            "tokens": prepared.parts["train"].tokens,
            "validation": evaluate_shards(model, prepared.tokenizer, TokenShards(folder / "tokens", "validation")),
        }
        data = _describe_data(request, source, prepared)
        write_run(
            folder, path.name, request.model, model, prepared.tokenizer, data, prepared.notes, metrics, started_at
        )
    return Run(path)


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
