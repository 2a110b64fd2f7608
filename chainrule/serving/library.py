"""The models that are served: a table made at the start. What a request names is looked up in it and nowhere else."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.comparison.compare import PLAN
from chainrule.errors import UserError, did_you_mean
from chainrule.models._numpy import step
from chainrule.models.base import LanguageModel
from chainrule.runs.folder import Run
from chainrule.serving.problems import Problem
from chainrule.text.base import Tokenizer


@dataclass(frozen=True)
class Served:
    """One run under the name by which it is asked for."""

    id: str
    run: Run
    created: int  # seconds since 1970

    @property
    def model(self) -> LanguageModel:
        return self.run.model

    @property
    def tokenizer(self) -> Tokenizer:
        return self.run.tokenizer

    @property
    def hash(self) -> str:
        """Of the weights: two models of the same hash say the same."""
        digest: str = self.run.manifest["model.safetensors"]["sha256"]
        return digest[:16]

    @property
    def context_length(self) -> int | None:
        return getattr(self.model, "context_length", None)

    def to_json(self) -> dict[str, Any]:
        """OpenAI's four fields, and what the page shows."""
        return {
            "id": self.id,
            "object": "model",
            "created": self.created,
            "owned_by": "chainrule",
            "architecture": self.run.architecture,
            "hash": self.hash,
            "parameters": self.model.num_parameters,
            "context_length": self.context_length,
            "vocabulary_size": self.tokenizer.vocabulary_size,
            "tokenizer": self.tokenizer.kind,
            "tokenizer_hash": self.tokenizer.fingerprint[:16],
        }


class Library:
    """In the order in which they were named; the first is the one for requests that name none."""

    def __init__(self, runs: Sequence[Run]):
        if not runs:
            raise UserError("there is nothing to serve; name at least one run")
        names = Counter(run.name for run in runs)
        paths = {run.path.resolve(): run for run in runs}  # the same run twice is one
        self.models: dict[str, Served] = {}
        for run in paths.values():
            id = run.name if names[run.name] == 1 else run.path.as_posix()
            created = int((run.path / "config.json").stat().st_mtime)
            self.models[id] = Served(id, run, created)

    def __iter__(self) -> Any:
        return iter(self.models.values())

    @property
    def first(self) -> Served:
        return next(iter(self.models.values()))

    def find(self, id: str | None) -> Served:
        if id is None:
            return self.first
        if id not in self.models:
            shown = id if len(id) <= 80 else f"{id[:80]}…"
            hint = did_you_mean(shown, self.models)
            known = ", ".join(self.models)
            raise Problem(404, f"there is no model '{shown}'{hint} (there are: {known})", "model_not_found", "model")
        return self.models[id]

    def load(self) -> None:
        """Read every model now, so that the first request need not wait and a damaged run is told at once."""
        for served in self:
            served.model, served.tokenizer.token_bytes  # noqa: B018

    def warm_up(self) -> None:
        """One token of each, so that kernels are compiled before anybody waits for them."""
        for served in self:
            step(served.model, np.array([[served.tokenizer.eos]]), served.model.start(1))

    @property
    def homes(self) -> list[Path]:
        """The folders in which the runs lie, where trainings that are under way are looked for."""
        return list(dict.fromkeys(served.run.path.resolve().parent for served in self))


def sort_out(paths: Sequence[str]) -> tuple[list[Run], tuple[Path, ...]]:
    """The runs among some folders, those inside comparisons too, and the comparisons themselves."""
    runs, comparisons = [], []
    for path in map(Path, paths):
        if (path / PLAN).is_file():
            comparisons.append(path)
            inside = sorted(each.parent for each in path.glob("*/config.json"))
            runs += [Run(each) for each in inside if not each.name.startswith(".")]
        else:
            runs.append(Run(path))
    return runs, tuple(comparisons)
