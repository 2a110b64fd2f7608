"""A run that writes one text from another, with all that is needed to use it."""

import os
from dataclasses import dataclass
from typing import Any

from chainrule import lookup
from chainrule.errors import UserError
from chainrule.runs.folder import Run
from chainrule.tasks._pairs import PairTask


@dataclass(frozen=True)
class PairsRun:
    run: Run
    task: PairTask

    @property
    def model(self) -> Any:
        return self.run.model


def load_pairs_run(path: str | os.PathLike[str]) -> PairsRun:
    run = Run(path, task=None)
    module = lookup.find("chainrule.tasks", run.task, "task") if "task" in run.config else None
    if module is None or not issubclass(module.Task, PairTask):
        raise UserError(
            f"'{run.path}' is a run of the task {run.task}, which writes no text from another; "
            "make one with: chainrule train --task translation PAIRS.tsv"
        )
    return PairsRun(run, module.Task(run.path))
