"""Reads the files of a Hugging Face folder: settings as JSON, tensors as safetensors or in torch's own format."""

import json
from pathlib import Path

import numpy as np

from chainrule.errors import UserError
from chainrule.interop._torch_file import arrays_in, read_checkpoint
from chainrule.storage import load_arrays

INDEX = "model.safetensors.index.json"
TORCH = "pytorch_model.bin"


def read_tensors(folder: Path) -> dict[str, np.ndarray]:
    """The tensors of a folder, from one file or from the several that an index lists; no other folder is read."""
    if (folder / INDEX).is_file():
        names = read_json(folder / INDEX).get("weight_map")
        if not isinstance(names, dict):
            raise UserError(f"'{folder / INDEX}' lists no files")
        files = sorted({Path(str(name)).name for name in names.values()})
    elif (folder / "model.safetensors").is_file():
        files = ["model.safetensors"]
    elif (folder / TORCH).is_file():
        return arrays_in(read_checkpoint(folder / TORCH), folder / TORCH)
    else:
        raise UserError(f"'{folder}' has neither model.safetensors nor {TORCH}")
    tensors: dict[str, np.ndarray] = {}
    for name in files:
        tensors |= load_arrays(folder / name)[0]
    return tensors


def read_json(path: Path) -> dict[str, object]:
    """The JSON object in a file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UserError(f"'{path}' is not valid JSON; download it again") from None
    if not isinstance(found, dict):
        raise UserError(f"'{path}' must hold a JSON object, found {type(found).__name__}")
    return found
