"""The runs in a folder, in brief: what each is, how good, how old, and which trainings can be resumed."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from chainrule.errors import UserError
from chainrule.runs.folder import LANGUAGE, RESUMABLE, Run, unfinished
from chainrule.runs.lock import is_locked
from chainrule.runs.records import CONFIG

Status = Literal["finished", "unfinished", "training", "damaged"]
PREFIX, SUFFIX = unfinished(Path("*")).name.split("*")  # of the name of an unfinished run


@dataclass(frozen=True)
class RunSummary:
    """One run; what is not known of it is None."""

    run: str
    status: Status  # unfinished: can be resumed; training: a process is at work on it now
    model: str | None = None
    task: str | None = None
    parameters: int | None = None
    bytes: int | None = None  # on disk
    bits_per_byte: float | None = None
    inputs: tuple[str, ...] = ()
    started_at: str | None = None  # UTC

    @property
    def age_seconds(self) -> float | None:
        if self.started_at is None:
            return None
        started = datetime.strptime(self.started_at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        return max(time.time() - started.timestamp(), 0.0)


def list_runs(folder: Path) -> list[RunSummary]:
    """The runs in a folder and in the folders within it, by name; unfinished trainings among them."""
    if not folder.is_dir():
        return []
    return sorted([*_finished(folder), *_unfinished(folder)], key=lambda each: each.run)


def _finished(folder: Path) -> Iterator[RunSummary]:
    for path in (file.parent for file in folder.rglob(CONFIG)):
        if any(part.startswith(PREFIX) and part.endswith(SUFFIX) for part in path.parts):
            continue
        try:
            yield _summarise(Run(path, task=None))
        except (UserError, KeyError, TypeError, ValueError):
            yield RunSummary(str(path), "damaged")


def _summarise(run: Run) -> RunSummary:
    trained = run.trained
    measured = trained["validation"] if trained else None
    return RunSummary(
        str(run.path),
        "finished",
        run.architecture,
        run.task,
        trained["parameters"] if trained else None,
        run.size_bytes,
        measured["bits_per_byte"] if measured else None,
        tuple(run.config["data"]["inputs"]),
        run.config["started_at"],
    )


def _unfinished(folder: Path) -> Iterator[RunSummary]:
    for file in folder.rglob(f"{PREFIX}*{SUFFIX}/{RESUMABLE}"):
        made = file.parent
        path = made.with_name(made.name.removeprefix(PREFIX).removesuffix(SUFFIX))
        status: Status = "training" if is_locked(made) else "unfinished"
        try:
            job = json.loads(file.read_text(encoding="utf-8"))
            started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(job["started_at"]))
            inputs = tuple(map(str, job["data"]["inputs"]))
            task = job.get("task", LANGUAGE)
            yield RunSummary(str(path), status, job["architecture"], task, inputs=inputs, started_at=started)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            yield RunSummary(str(path), "damaged")
