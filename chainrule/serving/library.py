"""The models that are served: a table made at the start. What a request names is looked up in it and nowhere else."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chainrule import registry
from chainrule.analysis.compare.compare import PLAN
from chainrule.api.pairs import pair_task
from chainrule.errors import UserError, did_you_mean
from chainrule.models._numpy import start, step
from chainrule.models.contract import LanguageModel
from chainrule.runs.folder import Run
from chainrule.serving.problems import Problem
from chainrule.tasks._pairs import PairTask
from chainrule.tasks.base import LANGUAGE
from chainrule.text.base import Tokenizer

WRONG_TASK = "wrong_task"  # what programs are told


@dataclass(frozen=True)
class ServedModel:
    """One run under the name by which it is asked for."""

    id: str
    run: Run
    created: int  # seconds since 1970
    pairs: PairTask | None = None  # of a run that writes one text from another

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
        """How many tokens it reads; of a run that writes one text from another, how many of a source."""
        return self.pairs.longest(self.model) if self.pairs else getattr(self.model, "context_length", None)

    def to_json(self) -> dict[str, Any]:
        """OpenAI's four fields, and what the page shows."""
        return {
            "id": self.id,
            "object": "model",
            "created": self.created,
            "owned_by": "chainrule",
            "task": self.run.task,
            "architecture": self.run.architecture,
            "hash": self.hash,
            "parameters": self.model.num_parameters,
            "context_length": self.context_length,
            "vocabulary_size": self.tokenizer.vocabulary_size,
            "tokenizer": self.tokenizer.kind,
            "tokenizer_hash": self.tokenizer.fingerprint[:16],
        }


class Library:
    """In the order in which they were named; the first of the right kind is the one for requests that name none."""

    def __init__(self, runs: Sequence[Run]):
        if not runs:
            raise UserError("there is nothing to serve; name at least one run")
        names = Counter(run.name for run in runs)
        paths = {run.path.resolve(): run for run in runs}  # the same run twice is one
        self.models: dict[str, ServedModel] = {}
        for run in paths.values():
            id = run.name if names[run.name] == 1 else run.path.as_posix()
            created = int((run.path / "config.json").stat().st_mtime)
            self.models[id] = ServedModel(id, run, created, _pairs_of(run))

    def __iter__(self) -> Any:
        return iter(self.models.values())

    def find(self, id: str) -> ServedModel:
        if id not in self.models:
            shown = id if len(id) <= 80 else f"{id[:80]}…"
            hint = did_you_mean(shown, self.models)
            known = ", ".join(self.models)
            raise Problem(404, f"there is no model '{shown}'{hint} (there are: {known})", "model_not_found", "model")
        return self.models[id]

    @property
    def languages(self) -> list[ServedModel]:
        found = [each for each in self if each.pairs is None]
        if not found:
            raise Problem(404, "no language model is served here; what is served is asked at /v1/translate", WRONG_TASK)
        return found

    def language(self, id: str | None) -> ServedModel:
        """The language model of this name, or the first."""
        found = self.languages[0] if id is None else self.find(id)
        if found.pairs is not None:
            what = f"'{found.id}' is a run of the task {found.run.task}, and this is for language models"
            raise Problem(400, f"{what}; ask it at /v1/translate", WRONG_TASK, "model")
        return found

    def translator(self, id: str | None) -> tuple[ServedModel, PairTask]:
        """The run of this name, or the first, that writes one text from another; and how."""
        found = next((each for each in self if each.pairs), None) if id is None else self.find(id)
        if found is None:
            what = "no run of the task translation or summarisation is served here"
            raise Problem(404, f"{what}; what is served is asked at /v1/completions", WRONG_TASK)
        if found.pairs is None:
            what = f"'{found.id}' is a language model, and this is for runs that write one text from another"
            raise Problem(400, f"{what}; ask it at /v1/completions", WRONG_TASK, "model")
        return found, found.pairs

    def load(self) -> None:
        """Read every model now, so that the first request need not wait and a damaged run is told at once."""
        for served in self:
            served.model, served.tokenizer.token_bytes  # noqa: B018

    def warm_up(self) -> None:
        """One token of each, so that kernels are compiled before anybody waits for them."""
        for served in self:
            condition = served.pairs.condition([np.zeros(0, np.int64)]) if served.pairs else None
            step(served.model, np.array([[served.tokenizer.eos]]), start(served.model, 1, condition))

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
            runs += [Run(each, task=None) for each in inside if not each.name.startswith(".")]
        else:
            runs.append(Run(path, task=None))
    return runs, tuple(comparisons)


def _pairs_of(run: Run) -> PairTask | None:
    found = pair_task(run)
    if found is None and run.task != LANGUAGE:
        command = registry.find("chainrule.tasks", run.task, "task").COMMAND
        raise UserError(f"'{run.path}' is a run of the task {run.task}, which is not served; use chainrule {command}")
    return found
