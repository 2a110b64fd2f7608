"""/trainings: the journals of the runs that are served, and of trainings under way in the same folders.

The name in a request is looked up in a table and never used as a path.
"""

import threading
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Query

from chainrule.errors import did_you_mean
from chainrule.runs.folder import unfinished
from chainrule.runs.lock import is_locked
from chainrule.serving.errors import APIError
from chainrule.serving.model_provider import ModelProvider
from chainrule.serving.responses import JsonObject, declare
from chainrule.serving.service import Service
from chainrule.training.callbacks import Record
from chainrule.training.journal import LAST, events

JOURNAL = "metrics.jsonl"
MOST_STEPS = 500  # of one response; more are thinned out evenly
ENDING = ".unfinished"


class Trainings:
    """A table from names to the paths that runs have, or will have once their training is done."""

    def __init__(self, models: ModelProvider):
        self._folders = models.parent_folders
        self._paths = {served.id: served.run.path.resolve() for served in models}
        self._lock = threading.Lock()  # these routes run in several threads

    def table(self) -> dict[str, Path]:
        """The current table; a training that was seen under way stays in it when it ends."""
        with self._lock:
            known = set(self._paths.values())
            for parent in self._folders:
                for folder in sorted(parent.glob(f".*{ENDING}")):
                    path = parent / folder.name[1 : -len(ENDING)]
                    if path not in known and (folder / JOURNAL).is_file():
                        name = path.name if path.name not in self._paths else path.as_posix()
                        self._paths[name] = path
            return dict(self._paths)

    def find(self, name: str) -> Path:
        table = self.table()
        if name not in table:
            shown = name if len(name) <= 80 else f"{name[:80]}…"
            raise APIError(404, f"there is no training '{shown}'{did_you_mean(shown, table)}", "not_found", "name")
        return table[name]


def read(path: Path) -> tuple[str, list[Record]]:
    """The status and the events of a training; an unfinished one takes precedence over the finished run it replaces."""
    folder = unfinished(path)
    if (folder / JOURNAL).is_file():
        return "training" if is_locked(folder) else "stopped", list(events(folder / JOURNAL))
    return "done", list(events(path / JOURNAL))


def summary(name: str, path: Path) -> JsonObject:
    """The latest figures of one training."""
    status, history = read(path)
    by_kind = {event["event"]: event for event in history}  # the last of each
    begin, step, evaluation, last = (by_kind.get(kind, {}) for kind in ("begin", "step", "evaluation", LAST))
    validation = last.get("validation") or evaluation
    return {
        "name": name,
        "status": status,
        "events": len(history),
        "learns": bool(step),
        "architecture": begin.get("architecture"),
        "parameters": begin.get("parameters") or last.get("parameters"),
        "progress": 1.0 if status == "done" else step.get("progress"),
        "step": step.get("step"),
        "seconds": last.get("training_seconds") or step.get("seconds"),
        "loss": step.get("loss"),
        "tokens_per_second": step.get("tokens_per_second"),
        "validation_loss": validation.get("loss"),
        "validation_bits_per_byte": validation.get("bits_per_byte"),
        "probes": sum(event["event"] == "probe" for event in history),
        "samples": sum(event["event"] == "sample" for event in history),
    }


def thinned(history: list[Record]) -> list[Record]:
    """All events, but at most MOST_STEPS of the steps, evenly spaced and including the last."""
    steps = [place for place, event in enumerate(history) if event["event"] == "step"]
    if len(steps) <= MOST_STEPS:
        return history
    kept = {steps[-1 - number * len(steps) // MOST_STEPS] for number in range(MOST_STEPS)}
    return [event for place, event in enumerate(history) if event["event"] != "step" or place in kept]


def add_routes(app: FastAPI, service: Service) -> None:
    trainings = Trainings(service.models)

    @app.get("/trainings", summary="Runs, and trainings in progress, with their latest figures.", responses=declare())
    def listed() -> JsonObject:
        return {"data": [summary(name, path) for name, path in trainings.table().items()]}

    @app.get("/trainings/{name:path}", summary="The events of one training, from its journal.", responses=declare())
    def one(name: str, since: Annotated[int, Query(ge=0, le=2**53)] = 0) -> JsonObject:
        """`since`: how many events the client has; `events` in the response is the next value for it. Where the journal
        is shorter, because a resumed training went back to a checkpoint, all events are sent again."""
        path = trainings.find(name)
        status, history = read(path)
        begin = since if since <= len(history) else 0
        data = thinned(history[begin:])
        return {"name": name, "status": status, "begin": begin, "events": len(history), "data": data}
