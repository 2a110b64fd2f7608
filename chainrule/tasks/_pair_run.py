"""A run that writes one text from another, together with the task that reads its sources and writes its targets."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chainrule.config import override
from chainrule.errors import UserError
from chainrule.generation.beam import Beam
from chainrule.runs.folder import LANGUAGE, Run
from chainrule.tasks._pairs import PairTask
from chainrule.tasks.base import find_task

DEFAULT_WIDTH = 5  # of the beam


@dataclass(frozen=True)
class PairsRun:
    run: Run
    task: PairTask

    @property
    def model(self) -> Any:
        return self.run.model

    def translate(self, texts: str | Sequence[str], **beam: Any) -> Any:
        """The best text for one source, or for each of several; settings as in `chainrule translate` (width, ...)."""
        sources = [texts] if isinstance(texts, str) else list(texts)
        search = override(Beam(width=DEFAULT_WIDTH), beam, "translate")
        written = [each.texts[0] for each in self.task.write(self.model, sources, search, search.truncate)]
        return written[0] if isinstance(texts, str) else written


def load_pairs_run(path: str | os.PathLike[str]) -> PairsRun:
    run = Run(path, task=None)
    task = pair_task(run)
    if task is None:
        raise UserError(
            f"'{run.path}' is a run of the task {run.task}, which writes no text from another; "
            "make one with: chainrule train --task translation PAIRS.tsv"
        )
    return PairsRun(run, task)


def pair_task(run: Run) -> PairTask | None:
    """The task of a run, where that is to write one text from another; else None."""
    if run.task == LANGUAGE:
        return None
    task = find_task(run.task)
    return task(run.path) if issubclass(task, PairTask) else None
