"""torch's own files (.pt, .bin): read as plain tensors, and nothing in them is ever run."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from chainrule.errors import UserError


def read_checkpoint(path: Path) -> Any:
    """What torch.save wrote, where it is numbers, texts and tensors in lists and dictionaries."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None
    except Exception as error:  # whatever torch says of a file that is none, or that holds more than tensors
        what = " ".join(str(error).split())[:120]
        raise UserError(f"'{path}' is not a checkpoint of plain tensors, and nothing else is read ({what})") from None


def arrays_in(found: Mapping[Any, Any]) -> dict[str, np.ndarray]:
    """Its tensors, by name."""
    tensors = {str(name): tensor for name, tensor in found.items() if isinstance(tensor, torch.Tensor)}
    return {name: np.asarray(tensor.float()) for name, tensor in tensors.items()}
