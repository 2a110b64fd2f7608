"""Everything that `chainrule train` was asked for, before anything is looked up or read."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chainrule.data.corpus import Reading
from chainrule.data.split import Splitting
from chainrule.tasks.base import LANGUAGE
from chainrule.text.choice import Tokenization

DEFAULT_CORPUS = "builtin:python-docs"


@dataclass(frozen=True)
class Request:
    inputs: tuple[str, ...] = (DEFAULT_CORPUS,)
    task: str = LANGUAGE
    validation: tuple[str, ...] = ()
    model: str | None = None  # None: the task's default, which may depend on whether there is a budget
    size: str | None = None
    config: Path | None = None  # a JSON file with settings of the model
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the model, the task and the recipe, by name
    reading: Reading = field(default_factory=Reading)
    splitting: Splitting = field(default_factory=Splitting)
    tokenization: Tokenization = field(default_factory=Tokenization)
    start: Path | None = None  # the run whose weights training begins from; None: random ones
    path: Path | None = None  # None: a free name in runs/
    overwrite: bool = False
    tensorboard: bool = False
    one: bool = False  # of a budget: train a single network rather than an ensemble
    started_at: float = field(default_factory=time.time)


def default_name(text: str) -> str:
    """The name of a run where none was given: poems for path/poems.txt."""
    text = text.partition("=")[0]
    if text == "-":
        return "stdin"
    if text.startswith("builtin:"):
        return text.removeprefix("builtin:")
    return Path(text.rstrip("/*") or "text").name.partition(".")[0] or "text"
