"""A run: config.json, tokenizer.json, model.safetensors, tokens/, metrics.jsonl, README.md, and a manifest of hashes.

A run is made under a temporary name and renamed when it is whole, so a folder with a run's name always is one.
"""

import errno
import glob
import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from chainrule import lookup
from chainrule.arrays import load_arrays
from chainrule.data.documents import Documents
from chainrule.data.shards import TokenShards
from chainrule.errors import UserError, did_you_mean
from chainrule.models.base import LanguageModel
from chainrule.progress import progress
from chainrule.text.base import Tokenizer

MANIFEST = "manifest.json"
COUNTED = "documents.safetensors"  # of runs without tokens: the hashes of the documents counted
HOME = Path("runs")


class Run:
    """An existing run, its parts loaded when asked for."""

    def __init__(self, path: str | os.PathLike[str]):
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
        return [name for name, entry in self.manifest.items() if _hash_file(self.path / name) != entry["sha256"]]

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer.load(self.path / "tokenizer.json")

    @cached_property
    def model(self) -> LanguageModel:
        module = lookup.find("chainrule.models", self.architecture, "model")
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
    hint = did_you_mean(str(path), dict.fromkeys(siblings + elsewhere))
    return f"run '{path}' not found{hint} (chainrule train makes runs)"


def _hash_file(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def free_name(stem: str) -> Path:
    """runs/poems, or runs/poems-2 where that is taken, and so on."""
    name = "".join(c if c.isalnum() or c in "._-" else "-" for c in stem).strip(".-") or "run"
    number = 1
    while (path := HOME / (name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return path


def check_free(path: Path, overwrite: bool) -> None:
    if path.is_file():
        raise UserError(f"'{path}' is a file; choose another name with --as")
    if path.exists() and not overwrite:
        raise UserError(f"'{path}' exists already; choose another name with --as, or pass --overwrite")
    if path.exists() and not (path / "config.json").is_file() and any(path.iterdir() if path.is_dir() else [path]):
        raise UserError(f"'{path}' is not a run, so it is not overwritten; choose another name with --as")


@contextmanager
def new_run(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """A folder to fill; then it is hashed, synced and renamed to `path`, or removed if anything went wrong."""
    check_free(path, overwrite)
    _remove_leftovers(path)
    mark = f".{path.name}.{socket.gethostname()}.{os.getpid()}"
    folder, replaced = path.with_name(f"{mark}.tmp"), path.with_name(f"{mark}.old.tmp")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"cannot make the folder '{path}': {error.strerror}") from None
    try:
        yield folder
        _write_manifest(folder)
        if overwrite and path.exists():
            path.resolve().rename(replaced)
        folder.rename(path.resolve())
        _sync(path.parent)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise UserError(f"another training has made '{path}' meanwhile; choose another name with --as") from None
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(
                f"the disk is full: '{path}' could not be written; free some space and train again"
            ) from None
        raise
    finally:
        if replaced.exists() and not path.exists():
            replaced.rename(path.resolve())  # the new one did not get its name: the old one keeps it
        for leftover in (folder, replaced):
            shutil.rmtree(leftover, ignore_errors=True)


def _remove_leftovers(path: Path) -> None:
    """Folders of this name that a process which is no more left half-made."""
    for folder in path.parent.glob(f".{glob.escape(path.name)}.{glob.escape(socket.gethostname())}.*.tmp"):
        number = folder.name.removesuffix(".tmp").removesuffix(".old").rpartition(".")[2]
        if number.isdigit() and not _is_running(int(number)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it runs, but is not ours
        return True
    return True


def _write_manifest(folder: Path) -> None:
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    manifest = {}
    with progress("hashing", sum(file.stat().st_size for file in files)) as advance:
        for file in files:
            size = file.stat().st_size
            manifest[file.relative_to(folder).as_posix()] = {"bytes": size, "sha256": _hash_file(file)}
            advance(size)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    for file in [*files, folder / MANIFEST, folder]:
        _sync(file)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
