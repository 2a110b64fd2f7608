"""Filling a run folder: the same files whether a model was trained, merged, mixed or imported."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from chainrule.config import to_json
from chainrule.runs.card import write_card
from chainrule.runs.folder import COUNTED, LANGUAGE, Run
from chainrule.runs.making import new_run
from chainrule.runs.records import (
    DataConfig,
    RunConfig,
    TokenizerConfig,
    TrainedEvent,
    TrainingConfig,
    TrainingFigures,
    append_event,
    write_config,
)
from chainrule.storage import save_arrays
from chainrule.text import stored
from chainrule.text.base import Tokenizer
from chainrule.version import __version__


class StorableModel(Protocol):
    """What a run needs of its model."""

    @property
    def config(self) -> object: ...  # the settings of the architecture, a dataclass

    @property
    def num_parameters(self) -> int: ...

    def save(self, path: Path) -> None: ...

    def notes(self) -> list[str]: ...


@dataclass(frozen=True)
class RunContents:
    """Everything that a run folder holds except its token shards."""

    name: str
    architecture: str
    model: StorableModel
    tokenizer: Tokenizer
    data: DataConfig
    notes: list[str]
    metrics: TrainingFigures
    started_at: float
    training: TrainingConfig | None = None  # of a model that learns by gradient: how it learned
    task: str = LANGUAGE
    uses: Sequence[str] = ()  # commands that use the run, for its model card; none: those of a language model
    example: str = ""  # of what it learned, for the card, where that is not plain text


def write_run(folder: Path, contents: RunContents) -> None:
    """Write tokenizer, model, last metrics, configuration and model card."""
    contents.tokenizer.save(folder / "tokenizer.json")
    contents.model.save(folder / "model.safetensors")
    trained: TrainedEvent = {"event": "trained", **contents.metrics, "parameters": contents.model.num_parameters}
    append_event(folder, trained)
    config = _configuration(contents)
    write_config(folder, config)
    write_card(folder / "README.md", contents.name, config, trained, contents.uses, contents.example)


def _configuration(contents: RunContents) -> RunConfig:
    config: RunConfig = {
        "chainrule": __version__,
        "architecture": contents.architecture,
        "model": to_json(contents.model.config),
        "tokenizer": _describe_tokenizer(contents.tokenizer),
        "data": contents.data,
        "started_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(contents.started_at)),
        "notes": contents.notes + contents.model.notes(),
    }
    if contents.task != LANGUAGE:
        config["task"] = contents.task
    if contents.training:
        config["training"] = contents.training
    return config


def _describe_tokenizer(tokenizer: Tokenizer) -> TokenizerConfig:
    found: TokenizerConfig = {
        "kind": tokenizer.kind,
        "vocabulary_size": tokenizer.vocabulary_size,
        "is_closed": tokenizer.is_closed,
        "hash": tokenizer.fingerprint,
    }
    return cast(TokenizerConfig, {**found, **stored.describe(tokenizer)})


def store(
    path: Path,
    architecture: str,
    model: StorableModel,
    tokenizer: Tokenizer,
    data: DataConfig,
    overwrite: bool,
    documents: list[int] | None = None,
    notes: list[str] | None = None,
    task: str = LANGUAGE,
    uses: Sequence[str] = (),
    extra: Callable[[Path], None] | None = None,
) -> Run:
    """Make a run of a model that was made of other models or files rather than trained.

    `documents` are the hashes of the documents it has counted. `extra` writes what else the task keeps in the folder.
    """
    metrics: TrainingFigures = {"validation": None}
    contents = RunContents(
        path.name, architecture, model, tokenizer, data, notes or [], metrics, time.time(), task=task, uses=uses
    )
    with new_run(path, overwrite) as folder:
        write_run(folder, contents)
        if extra is not None:
            extra(folder)
        if documents is not None:
            save_arrays(folder / COUNTED, {"hashes": np.array(sorted(documents), np.uint64)})
    return Run(path, task)
