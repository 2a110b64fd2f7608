"""Architectures that only the tests know: this folder, put beside chainrule/models."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import chainrule.models

FOLDER = Path(__file__).parent


@contextmanager
def added(*folders: Path) -> Iterator[None]:
    """Within the block, the architectures of this folder and of others are found like those of chainrule/models."""
    before = list(chainrule.models.__path__)
    chainrule.models.__path__[:] = [*before, *map(str, (FOLDER, *folders))]
    importlib.invalidate_caches()
    yield
    chainrule.models.__path__[:] = before
    for file in (file for folder in (FOLDER, *folders) for file in folder.glob("*.py")):
        sys.modules.pop(f"chainrule.models.{file.stem}", None)
