"""A run: config.json, tokenizer.json, model.safetensors, tokens/, metrics.jsonl, README.md, and a manifest of hashes.

A run is written under a temporary name (see `making`), so a folder that has a run's name is complete.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np

from chainrule import registry
from chainrule.data.documents import Documents
from chainrule.data.shards import TokenShards, has_shards
from chainrule.data.split import Split
from chainrule.errors import UserError, did_you_mean
from chainrule.evaluation.seen import TrainedOn
from chainrule.models.contract import LanguageModel
from chainrule.progress import Advance
from chainrule.runs.records import CONFIG, Event, RunConfig, TrainedEvent, damaged, read_config, read_events
from chainrule.storage import load_arrays
from chainrule.text import stored
from chainrule.text.base import Tokenizer

LANGUAGE = "language"  # the task of every run that names none: each token is predicted from those before it
LANGUAGE_TASKS = (
    LANGUAGE,
    "dialogue",
    "preferences",
)  # of runs that are language models, whatever they were trained on
TOKENS_FOLDER = "tokens"  # of a run: what training reads
MANIFEST = "manifest.json"
COUNTED = "documents.safetensors"  # of runs without tokens: the hashes of the documents counted
HOME = Path("runs")
RESUMABLE = "training.json"  # what an unfinished training needs in order to be resumed


class FileFacts(TypedDict):
    """The size and hash of one file of a run."""

    bytes: int
    sha256: str


class InputFacts(FileFacts):
    """The same of a file that training reads."""

    path: str


def unfinished(path: Path) -> Path:
    """The folder in which a run is made before it gets its name."""
    return path.with_name(f".{path.name}.unfinished")


class Run:
    """An existing run; its tokenizer and model are loaded when they are first used."""

    config: RunConfig

    def __init__(self, path: str | os.PathLike[str], task: str | None = LANGUAGE):
        """Open a run of the given task; None opens a run of any task, "language" every language model."""
        self.path = Path(path)
        if not self.path.exists() and (HOME / self.path / CONFIG).is_file():
            self.path = HOME / self.path  # a bare name is looked up in runs/
        if not (self.path / CONFIG).is_file():
            raise UserError(_not_found(self.path))
        self.config = read_config(self.path)
        self.architecture = self.config["architecture"]
        self._check_sizes()
        is_fit = task in (None, self.task) or (task == LANGUAGE and self.is_language_model)
        if not is_fit:
            raise UserError(
                f"'{self.path}' is a run for {self.task}, but a run for {task} is needed; "
                f"chainrule show {self.path} tells how to use it"
            )

    @property
    def task(self) -> str:
        """The task it was trained for; a run that names none is a language model."""
        return self.config.get("task", LANGUAGE)

    @property
    def is_language_model(self) -> bool:
        """Whether it predicts each token from those before it, so that it samples, scores and explains text."""
        return self.task in LANGUAGE_TASKS

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def manifest(self) -> dict[str, FileFacts]:
        """The size and hash of each file of the run, by its name."""
        try:
            manifest = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
            return {
                name: {"bytes": int(entry["bytes"]), "sha256": str(entry["sha256"])} for name, entry in manifest.items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError, UnicodeDecodeError):
            raise UserError(f"'{self.path}/{MANIFEST}' is missing or damaged; train the run again") from None

    def _check_sizes(self) -> None:
        for name, entry in self.manifest.items():
            file = self.path / name
            if not file.is_file():
                raise UserError(f"the file {name} of the run '{self.path}' is missing; train it again")
            if file.stat().st_size != entry["bytes"]:
                found = f"has {file.stat().st_size:,} bytes instead of {entry['bytes']:,}"
                raise UserError(f"'{file}' {found}; it is truncated or was changed: train the run again")

    def verify(self) -> list[str]:
        """The names of the files whose contents have changed since they were written."""
        return [name for name, entry in self.manifest.items() if hash_file(self.path / name) != entry["sha256"]]

    @cached_property
    def tokenizer(self) -> Tokenizer:
        try:
            return stored.load(self.path / "tokenizer.json", self.config["tokenizer"])
        except (KeyError, TypeError, ValueError):
            raise damaged(self.path / CONFIG) from None

    @cached_property
    def model(self) -> LanguageModel:
        module = registry.find("chainrule.models", self.architecture, "model")
        model: LanguageModel = module.Model.load(self.path / "model.safetensors")
        mine = (self.tokenizer.vocabulary_size, self.tokenizer.eos, self.tokenizer.fingerprint)
        if (model.vocabulary_size, model.eos, self.config["tokenizer"]["hash"]) != mine:
            raise UserError(f"the model and the tokenizer of '{self.path}' do not belong together; train the run again")
        return model

    @property
    def has_shards(self) -> bool:
        """Whether the text that it was trained on is stored with it, token after token."""
        return has_shards(self.path / TOKENS_FOLDER)

    def shards(self, name: str = "train") -> TokenShards:
        return TokenShards(self.path / TOKENS_FOLDER, name)

    def counted_documents(self) -> list[int] | None:
        """The hashes of the documents it was trained on; None where they are not known, as for an imported model."""
        if (self.path / COUNTED).is_file():
            counted: list[int] = load_arrays(self.path / COUNTED)[0]["hashes"].tolist()
            return counted
        if not self.has_shards:
            return None
        shards = self.shards("train")
        return [each for shard in range(len(shards)) for each in shards.table(shard)["hashes"].tolist()]

    def trained_on(self) -> TrainedOn | None:
        """What it was trained on, to tell whether it has seen a text; None where that is not known."""
        counted, data = self.counted_documents(), self.config["data"]
        if counted is None:
            return None
        names = {each.name for each in fields(Split)}
        known = [{name: value for name, value in each.items() if name in names} for each in data.get("splits", [])]
        splits = tuple(Split(**cast(dict[str, Any], each)) for each in known)
        return TrainedOn(np.array(counted, np.uint64), data.get("unit", "line"), splits)

    @property
    def size_bytes(self) -> int:
        return sum(entry["bytes"] for entry in self.manifest.values())

    @property
    def metrics(self) -> list[Event]:
        """Everything that training wrote down, in its order."""
        return list(read_events(self.path))

    @property
    def trained(self) -> TrainedEvent | None:
        """The event that training ended with: its figures, and how good the model is."""
        return next((event for event in reversed(self.metrics) if event["event"] == "trained"), None)


class KeptAside:
    """The validation text that training held out, decoded from the run's token shards; it is read like a corpus."""

    total_bytes = 0

    def __init__(self, run: Run):
        self.unit = run.config["data"]["unit"]
        self.notes: list[str] = []
        self._run = run

    @property
    def changed_documents(self) -> int:
        """How many of them are not what was in the files, as tokens hid a part of it."""
        return self._run.shards("validation").changed_documents(self._run.tokenizer)

    def batches(self, progress: Advance | None = None) -> Iterator[Documents]:
        return self._run.shards("validation").documents(self._run.tokenizer)

    def cut_by(self, unit: str) -> Iterator[Documents]:
        """Its documents as they are; by another unit none, as what stood between them is gone."""
        return self.batches() if unit == self.unit else iter(())


def _not_found(path: Path) -> str:
    siblings = [str(p) for p in path.parent.iterdir() if (p / CONFIG).is_file()] if path.parent.is_dir() else []
    elsewhere = [str(p) for p in HOME.iterdir() if (p / CONFIG).is_file()] if HOME.is_dir() else []
    if path.is_file():
        return f"'{path}' is a file, not a run; make a run of it with: chainrule train {path}"
    for folder in (path, HOME / path):
        if (unfinished(folder) / RESUMABLE).is_file():
            return f"the training of '{folder}' is unfinished; resume it with: chainrule train --resume {folder}"
    hint = did_you_mean(str(path), dict.fromkeys(siblings + elsewhere))
    return f"run '{path}' not found{hint} (chainrule train makes runs)"


def hash_file(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe_files(paths: list[str]) -> list[InputFacts]:
    """The facts by which a resumed training sees whether its files have changed; pipes and built-in texts have none."""
    files = [Path(path) for path in paths]
    return [
        {"path": str(file.resolve()), "bytes": file.stat().st_size, "sha256": hash_file(file)}
        for file in files
        if file.is_file()
    ]
