"""What the functions of the Python interface take as text: paths, or texts in memory."""

import os
from collections.abc import Sequence
from pathlib import Path

from chainrule.data.texts import Texts
from chainrule.errors import UserError

StrPath = str | os.PathLike[str]
Input = StrPath | Texts
Inputs = Input | Sequence[Input]


def input_names(inputs: Inputs) -> list[str]:
    """The inputs as the rest of the package names them: paths as texts, and the names of texts in memory.

    A string is always a path, a folder or a pattern; one that is clearly a text is refused.
    """
    if isinstance(inputs, str | os.PathLike | Texts):
        return [_name(inputs)]
    return [_name(each) for each in inputs]


def _name(given: Input) -> str:
    if isinstance(given, Texts):
        return given.name
    name = os.fspath(given)
    if "\n" in name and not _exists(name):
        raise UserError(
            f"an input is the path of a file, and {name[:30]!r}... is a text; pass texts as chainrule.Texts([...])"
        )
    return name


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):
        return False
