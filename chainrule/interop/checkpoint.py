"""torch's own files (.pt, .bin): read as plain tensors, and nothing in them is ever run."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from chainrule.errors import UserError

DTYPES = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool,
)  # fmt: skip
MOST_NAMES = 4  # of one tensor: an embedding may be the encoder's, the decoder's, the output's, and shared


def read_checkpoint(path: Path) -> Any:
    """What torch.save wrote, where it is numbers, texts and tensors in lists and dictionaries."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:  # whatever torch says of a file that is none, or that holds more than tensors
        what = " ".join(str(error).split())[:120]
        raise UserError(f"'{path}' is not a checkpoint of plain tensors, and nothing else is read ({what})") from None


def arrays_in(found: Mapping[Any, Any], path: Path) -> dict[str, np.ndarray]:
    """Its tensors, by name, floating-point numbers as float32; what shares memory must fit in a few times the file."""
    tensors = {str(name): _plain(str(name), each) for name, each in found.items()}
    if sum(each.nbytes for each in tensors.values()) > MOST_NAMES * path.stat().st_size:
        raise UserError(f"the tensors of '{path}' have more numbers than the file holds")
    return {name: (each.float() if each.is_floating_point() else each).numpy() for name, each in tensors.items()}


def _plain(name: str, tensor: Any) -> torch.Tensor:
    """Refused unless it is a tensor whose every number is in the file."""
    if not isinstance(tensor, torch.Tensor):
        raise UserError(f"'{name}' in the checkpoint must be a tensor, found {type(tensor).__name__}")
    tensor = tensor.detach()
    if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.dtype not in DTYPES:
        what = ", ".join(str(each).removeprefix("torch.") for each in (tensor.layout, tensor.dtype, tensor.device))
        raise UserError(f"the tensor '{name}' is stored in a way not known here ({what})")
    if tensor.nbytes > tensor.untyped_storage().nbytes():
        raise UserError(f"the tensor '{name}' has more numbers than are stored for it")
    return tensor
