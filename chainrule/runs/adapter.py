"""adapter.safetensors: the low-rank updates that a run was trained with, apart from the weights they were folded into.

The run's model has them already, so that every command takes it as any other; the adapter is for other programs, which
add it to the model that the run began from.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.config import from_json
from chainrule.errors import UserError
from chainrule.layers.lora_settings import LoRA
from chainrule.runs.folder import Run
from chainrule.runs.records import damaged
from chainrule.storage import load_arrays, save_arrays

ADAPTER = "adapter.safetensors"
MODEL = "model.safetensors"


@dataclass(frozen=True)
class Base:
    """The run that an adapter is for: its name, and the hash of its weights."""

    name: str
    sha256: str

    @classmethod
    def of(cls, run: Run) -> "Base":
        return cls(run.name, run.manifest[MODEL]["sha256"])


@dataclass(frozen=True)
class Adapter:
    """A's and B's by the names that layers/lora.py gives them. In an imported one, some may be of another rank."""

    settings: LoRA
    arrays: Mapping[str, np.ndarray]
    base: Base

    def save(self, path: Path) -> None:
        facts = {"settings": asdict(self.settings), "base": asdict(self.base)}
        save_arrays(path, self.arrays, {"adapter": json.dumps(facts)})


def save_adapter(path: Path, model: Any, settings: LoRA, base: Base) -> None:
    """Write the updates of a model, which are not folded yet, and what they are for."""
    from chainrule.layers.lora import lora_parameters

    arrays = {name: each.detach().cpu().numpy() for name, each in lora_parameters(model).items()}
    Adapter(settings, arrays, base).save(path)


def load_adapter(path: Path) -> Adapter:
    arrays, metadata = load_arrays(path)
    try:
        facts = json.loads(metadata["adapter"])
        settings = from_json(LoRA, facts["settings"], "the file")
        name, sha256 = facts["base"]["name"], facts["base"]["sha256"]
        pairs = {each[:-1] for each in arrays}
        if not (isinstance(name, str) and isinstance(sha256, str)) or arrays.keys() != {
            f"{stem}{which}" for stem in pairs for which in "AB"
        }:
            raise ValueError
    except (KeyError, TypeError, ValueError, UserError):
        raise damaged(path) from None
    return Adapter(settings, {name: np.array(each) for name, each in arrays.items()}, Base(name, sha256))


def adapter_of(run: Run) -> Adapter | None:
    """The adapter of a run; None where it was not trained with LoRA."""
    return load_adapter(run.path / ADAPTER) if (run.path / ADAPTER).is_file() else None
