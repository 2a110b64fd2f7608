"""Reads torch's own files (.pt, .bin) as plain tensors; nothing in them is ever executed."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from chainrule.errors import UserError

DTYPES = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool,
)  # fmt: skip
MOST_NAMES = 4  # of one tensor: an embedding may be the encoder's, the decoder's, the output's, and shared


def read_checkpoint(path: Path) -> dict[str, object]:
    """The dictionary that torch.save wrote, if it holds only numbers, texts and tensors."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:  # whatever torch says of a file that is none, or that holds more than tensors
        what = " ".join(str(error).split())[:120]
        raise UserError(f"'{path}' is not a checkpoint of plain tensors, and nothing else is read ({what})") from None

    if not isinstance(found, dict):
        raise UserError(f"'{path}' must hold tensors by their names, found {type(found).__name__}")
    return found


def arrays_in(found: Mapping[str, object], path: Path) -> dict[str, np.ndarray]:
    """The tensors of a checkpoint as arrays, floating-point numbers as float32.

    Tensors may share memory, but all together must not be more than a few times as large as the file.
    """
    tensors = {str(name): _plain(str(name), each) for name, each in found.items()}
    if sum(each.nbytes for each in tensors.values()) > MOST_NAMES * path.stat().st_size:
        raise UserError(f"the tensors of '{path}' have more numbers than the file holds")
    return {name: (each.float() if each.is_floating_point() else each).numpy() for name, each in tensors.items()}


def _plain(name: str, tensor: object) -> torch.Tensor:
    """The tensor, if it is one whose numbers are all in the file; anything else is refused."""
    if not isinstance(tensor, torch.Tensor):
        raise UserError(f"'{name}' in the checkpoint must be a tensor, found {type(tensor).__name__}")
    tensor = tensor.detach()
    if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.dtype not in DTYPES:
        what = ", ".join(str(each).removeprefix("torch.") for each in (tensor.layout, tensor.dtype, tensor.device))
        raise UserError(f"the tensor '{name}' is stored in an unsupported way ({what})")
    if tensor.nbytes > tensor.untyped_storage().nbytes():
        raise UserError(f"the tensor '{name}' has more numbers than are stored for it")
    return tensor
