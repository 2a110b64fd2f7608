"""A run: config.json, tokenizer.json, model.safetensors, tokens/, metrics.jsonl, README.md, and a manifest of hashes.

A run is made under another name (see `making`), so a folder with a run's name always is one.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from chainrule import registry
from chainrule.data.documents import Documents
from chainrule.data.shards import TokenShards
from chainrule.errors import UserError, did_you_mean
from chainrule.models.contract import LanguageModel
from chainrule.storage import load_arrays
from chainrule.tasks.base import LANGUAGE
from chainrule.text.base import Tokenizer
from chainrule.text.chat import read_chat

MANIFEST = "manifest.json"
COUNTED = "documents.safetensors"  # of runs without tokens: the hashes of the documents counted
HOME = Path("runs")
RESUMABLE = "training.json"  # what an unfinished run that can be gone on with has


def unfinished(path: Path) -> Path:
    """Where a run is made before it gets its name."""
    return path.with_name(f".{path.name}.unfinished")


class Run:
    """An existing run, its parts loaded when asked for."""

    def __init__(self, path: str | os.PathLike[str], task: str | None = LANGUAGE):
        """Whoever can use runs of another task than language says so, or None: of any."""
        self.path = Path(path)
        if not self.path.exists() and (HOME / self.path / "config.json").is_file():
            self.path = HOME / self.path  # a bare name is one of ours
        if not (self.path / "config.json").is_file():
            raise UserError(_not_found(self.path))
        try:
            self.config: dict[str, Any] = json.loads((self.path / "config.json").read_text(encoding="utf-8"))
            self.architecture: str = self.config["architecture"]
            self.config["data"]["inputs"], self.config["tokenizer"]["hash"], self.config["model"].items()
        except (ValueError, KeyError, TypeError, AttributeError, UnicodeDecodeError):
            raise UserError(f"'{self.path}/config.json' is damaged; train the run again") from None
        self._check_sizes()
        if task is not None and self.task != task:
            raise UserError(
                f"'{self.path}' is a run of the task {self.task}, and this is for runs of the task {task}; "
                f"chainrule show {self.path} says what it is for"
            )

    @property
    def task(self) -> str:
        """What it was trained for; runs that do not say are language models."""
        return str(self.config.get("task", LANGUAGE))

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def manifest(self) -> dict[str, Any]:
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
                raise UserError(f"the run '{self.path}' lacks {name}; train it again")
            if file.stat().st_size != entry["bytes"]:
                found = f"has {file.stat().st_size:,} bytes instead of {entry['bytes']:,}"
                raise UserError(f"'{file}' {found}; it was cut off or changed: train the run again")

    def verify(self) -> list[str]:
        """Names of files whose contents are no longer what was written."""
        return [name for name, entry in self.manifest.items() if hash_file(self.path / name) != entry["sha256"]]

    @cached_property
    def tokenizer(self) -> Tokenizer:
        facts = self.config["tokenizer"]
        tokenizer = Tokenizer.load(self.path / "tokenizer.json", facts.get("end"))
        start = facts.get("start", tokenizer.eos)
        if start is not None and not (type(start) is int and 0 <= start < tokenizer.vocabulary_size):
            raise UserError(f"'{self.path}/config.json' is damaged; train the run again")
        tokenizer.start = start
        try:
            tokenizer.chat = read_chat(facts.get("chat"))
        except (UserError, KeyError, TypeError):
            raise UserError(f"'{self.path}/config.json' is damaged; train the run again") from None
        return tokenizer

    @cached_property
    def model(self) -> LanguageModel:
        module = registry.find("chainrule.models", self.architecture, "model")
        model: LanguageModel = module.Model.load(self.path / "model.safetensors")
        mine = (self.tokenizer.vocabulary_size, self.tokenizer.eos, self.tokenizer.fingerprint)
        if (model.vocabulary_size, model.eos, self.config["tokenizer"]["hash"]) != mine:
            raise UserError(f"the model and the tokenizer of '{self.path}' do not belong together; train the run again")
        return model

    def shards(self, name: str = "train") -> TokenShards:
        return TokenShards(self.path / "tokens", name)

    def counted_documents(self) -> list[int] | None:
        """The hashes of the documents it was trained on; None where that is not known, as of an import."""
        if (self.path / COUNTED).is_file():
            return load_arrays(self.path / COUNTED)[0]["hashes"].tolist()
        if not (self.path / "tokens").is_dir():
            return None
        shards = self.shards("train")
        return [each for shard in range(len(shards)) for each in shards.table(shard)["hashes"].tolist()]

    @property
    def size_bytes(self) -> int:
        return sum(entry["bytes"] for entry in self.manifest.values())

    @property
    def metrics(self) -> list[dict[str, Any]]:
        file = self.path / "metrics.jsonl"
        try:
            return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
        except ValueError:
            raise UserError(f"'{file}' is damaged; train the run again") from None


class KeptAside:
    """The text that training kept aside, from the run's own token shards; read like a corpus."""

    total_bytes = 0

    def __init__(self, run: Run):
        self.unit: str = run.config["data"]["unit"]
        self.notes: list[str] = []
        self._run = run

    def batches(self, progress: Any = None) -> Iterator[Documents]:
        return self._run.shards("validation").documents(self._run.tokenizer)


def _not_found(path: Path) -> str:
    siblings = [str(p) for p in path.parent.iterdir() if (p / "config.json").is_file()] if path.parent.is_dir() else []
    elsewhere = [str(p) for p in HOME.iterdir() if (p / "config.json").is_file()] if HOME.is_dir() else []
    if path.is_file():
        return f"'{path}' is a file, not a run; make a run of it with: chainrule train {path}"
    for folder in (path, HOME / path):
        if (unfinished(folder) / RESUMABLE).is_file():
            return f"the training of '{folder}' is not finished; go on with: chainrule train --resume {folder}"
    hint = did_you_mean(str(path), dict.fromkeys(siblings + elsewhere))
    return f"run '{path}' not found{hint} (chainrule train makes runs)"


def hash_file(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe_files(paths: list[str]) -> list[dict[str, Any]]:
    """What a later training is compared with; pipes and built-in texts have no file."""
    files = [Path(path) for path in paths]
    return [
        {"path": str(file.resolve()), "bytes": file.stat().st_size, "sha256": hash_file(file)}
        for file in files
        if file.is_file()
    ]
