"""Training checkpoints: all that is needed to resume a killed training exactly where it stood.

One safetensors file a checkpoint, then its seal, a small JSON file with its size and hash. Both are written under
another name, synced and renamed, the seal last: a checkpoint that does not match its seal was torn and is never picked.
"""

import errno
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chainrule.errors import UserError
from chainrule.runs.folder import hash_file
from chainrule.runs.making import CHECKPOINTS, sync
from chainrule.storage import load_arrays, save_arrays

KEPT = 2  # the newest, and one before it should the newest be damaged


@dataclass
class Checkpoint:
    tensors: dict[str, Tensor]
    facts: dict[str, Any]  # step, seconds, best loss, ...: plain JSON


class Checkpoints:
    """The checkpoints of one training, in its folder."""

    def __init__(self, folder: Path):
        self.folder = folder / CHECKPOINTS
        self.notes: list[str] = []
        self._torn: set[int] = set()

    def steps(self) -> list[int]:
        """The steps of all complete checkpoints, in order."""
        return sorted(_steps(self.folder, "json") - self._torn)

    def save(self, checkpoint: Checkpoint) -> None:
        step = int(checkpoint.facts["step"])
        try:
            self.folder.mkdir(exist_ok=True)
            self._write(step, checkpoint)
        except OSError as error:
            for leftover in self.folder.glob("*.tmp"):
                leftover.unlink(missing_ok=True)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise UserError(self._disk_is_full(step)) from None
            raise
        self._torn.discard(step)
        self._remove_all_but([each for each in self.steps() if each <= step][-KEPT:])

    def _write(self, step: int, checkpoint: Checkpoint) -> None:
        target, seal = self._paths(step)
        new_target, new_seal = target.with_suffix(".tmp"), seal.with_suffix(".json.tmp")
        arrays = {name: _to_numpy(tensor) for name, tensor in checkpoint.tensors.items()}
        save_arrays(new_target, arrays, {"facts": json.dumps(checkpoint.facts)})
        with open(new_seal, "w", encoding="utf-8") as file:
            json.dump({"bytes": new_target.stat().st_size, "sha256": hash_file(new_target)}, file)
            file.flush()
            os.fsync(file.fileno())
        new_target.replace(target)
        new_seal.replace(seal)
        sync(self.folder)

    def load(self) -> Checkpoint | None:
        """The newest complete checkpoint; None if there is none."""
        for step in sorted(_steps(self.folder, "json") | _steps(self.folder, "safetensors"), reverse=True):
            try:
                return self._read(step)
            except (OSError, ValueError, KeyError, TypeError, UserError):
                self._torn.add(step)
                self.notes.append(f"the checkpoint of step {step} is damaged and was skipped")
        return None

    def _read(self, step: int) -> Checkpoint:
        target, seal = self._paths(step)
        sealed = json.loads(seal.read_text(encoding="utf-8"))
        if target.stat().st_size != sealed["bytes"] or hash_file(target) != sealed["sha256"]:
            raise ValueError
        arrays, metadata = load_arrays(target)
        tensors = {name: torch.tensor(array) for name, array in arrays.items()}  # copies, aligned as torch's own
        return Checkpoint(tensors, json.loads(metadata["facts"]))

    def _paths(self, step: int) -> tuple[Path, Path]:
        return self.folder / f"{step:09d}.safetensors", self.folder / f"{step:09d}.json"

    def _remove_all_but(self, kept: list[int]) -> None:
        """Remove old and incomplete checkpoints; seals first, so that none outlives its checkpoint."""
        wanted = {path for step in kept for path in self._paths(step)}
        for path in sorted(self.folder.iterdir(), key=lambda path: path.suffix != ".json"):
            if path not in wanted:
                path.unlink(missing_ok=True)

    def _disk_is_full(self, step: int) -> str:
        kept = self.steps()
        where = f"the disk is full: the checkpoint of step {step} could not be written to '{self.folder}'"
        if not kept:
            return f"{where}, and there is no earlier one; free some space"
        return f"{where}, but that of step {kept[-1]} is whole; free some space"


def _steps(folder: Path, ending: str) -> set[int]:
    return {int(path.stem) for path in folder.glob(f"*.{ending}") if path.stem.isdigit()}


def _to_numpy(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array
