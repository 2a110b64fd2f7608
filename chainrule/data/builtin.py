"""Corpora that come with Python itself: its manual's topics and the source of its standard library."""

import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from chainrule.data.tally import Tally
from chainrule.errors import UserError, did_you_mean

PREFIX = "builtin:"
NAMES = ("builtin:python-docs", "builtin:python-source")
# Tests, other people's packages, and a parser that newer Pythons no longer carry.
LEFT_OUT_FOLDERS = {
    "test",
    "tests",
    "idle_test",
    "site-packages",
    "dist-packages",
    "lib2to3",
    "__pycache__",
}


def is_builtin(name: str) -> bool:
    """Whether an input names a built-in corpus rather than a file."""
    return name.startswith(PREFIX)


def size(name: str) -> int:
    """The bytes of a built-in corpus; an unknown name is refused here."""
    if name not in NAMES:
        raise UserError(f"'{name}' is not built in{did_you_mean(name, NAMES)} (there are {' and '.join(NAMES)})")
    if name == "builtin:python-docs":
        return sum(len(text.encode()) for text in _topics().values())
    return sum(path.stat().st_size for path in _library_files())


def texts(name: str, tally: Tally) -> Iterator[str]:
    """The documents of a built-in corpus, in an order that does not change."""
    if name == "builtin:python-docs":
        yield from (text for _, text in sorted(_topics().items()))
    else:
        yield from _library_texts(tally)


def _topics() -> dict[str, str]:
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise UserError("this Python comes without pydoc_data, so there is no builtin:python-docs") from error
    return topics


def _library_texts(tally: Tally) -> Iterator[str]:
    for path in _library_files():
        try:
            yield path.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError:
            tally.add("file{s} left out for not being UTF-8")


def _library_files() -> list[Path]:
    found: list[Path] = []
    for folder, folders, names in os.walk(sysconfig.get_path("stdlib")):
        folders[:] = [name for name in folders if name not in LEFT_OUT_FOLDERS]
        found.extend(Path(folder, name) for name in names if name.endswith(".py"))
    return sorted(found)
