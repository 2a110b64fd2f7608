"""Training checkpoints: all that is needed to go on exactly where a killed training stood.

One safetensors file a checkpoint, then a small JSON file with its hash. Both are written under another name, synced
and renamed, the JSON last: a checkpoint without it, or that does not match it, was torn and is never picked.
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

from chainrule.arrays import load_arrays, save_arrays
from chainrule.errors import UserError
from chainrule.runs.folder import hash_file
from chainrule.runs.making import sync

FOLDER = "checkpoints"
KEPT = 2  # the newest, and one before it should the newest be damaged


@dataclass
class Checkpoint:
    tensors: dict[str, Tensor]
    facts: dict[str, Any]  # step, seconds, best loss, ...: plain JSON


class Checkpoints:
    """Those of one training, in its folder."""

    def __init__(self, folder: Path):
        self.folder = folder / FOLDER
        self.notes: list[str] = []

    def steps(self) -> list[int]:
        return sorted(int(path.stem) for path in self.folder.glob("*.json") if path.stem.isdigit())

    def save(self, checkpoint: Checkpoint) -> None:
        step = int(checkpoint.facts["step"])
        arrays = {name: _to_numpy(tensor) for name, tensor in checkpoint.tensors.items()}
        target, facts = self._paths(step)
        try:
            self.folder.mkdir(exist_ok=True)
            temporary = target.with_suffix(".tmp")
            save_arrays(temporary, arrays)
            entry = {"facts": checkpoint.facts, "bytes": temporary.stat().st_size, "sha256": hash_file(temporary)}
            _write(facts.with_suffix(".json.tmp"), json.dumps(entry))
            temporary.replace(target)
            facts.with_suffix(".json.tmp").replace(facts)
            sync(self.folder)
        except OSError as error:
            for leftover in self.folder.glob("*.tmp"):
                leftover.unlink(missing_ok=True)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                kept = self.steps()
                remains = f"the checkpoint of step {kept[-1]} is whole" if kept else "there is no earlier checkpoint"
                raise UserError(
                    f"the disk is full: the checkpoint of step {step} could not be written to '{self.folder}'; "
                    f"{remains}: free some space and continue with --resume"
                ) from None
            raise
        self._remove_old()

    def load(self) -> Checkpoint | None:
        """The newest one that is whole."""
        for step in reversed(self.steps()):
            target, facts = self._paths(step)
            try:
                entry = json.loads(facts.read_text(encoding="utf-8"))
                if target.stat().st_size != entry["bytes"] or hash_file(target) != entry["sha256"]:
                    raise ValueError
                arrays, _ = load_arrays(target)
                tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
                return Checkpoint(tensors, dict(entry["facts"]))
            except (OSError, ValueError, KeyError, TypeError, UserError):
                self.notes.append(f"the checkpoint of step {step} is torn or changed and was passed over")
        return None

    def _paths(self, step: int) -> tuple[Path, Path]:
        return self.folder / f"{step:09d}.safetensors", self.folder / f"{step:09d}.json"

    def _remove_old(self) -> None:
        for step in self.steps()[:-KEPT]:
            for path in reversed(self._paths(step)):
                path.unlink(missing_ok=True)


def _to_numpy(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array


def _write(path: Path, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
