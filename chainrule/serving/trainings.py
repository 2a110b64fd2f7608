"""/trainings: the journals of the runs that are served, and of trainings under way in the same folders.

What a request names is looked up in the table of these, never made a path of.
"""

import threading
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query

from chainrule.errors import did_you_mean
from chainrule.runs.folder import unfinished
from chainrule.runs.lock import is_locked
from chainrule.serving.answers import ERRORS
from chainrule.serving.library import Library
from chainrule.serving.problems import Problem
from chainrule.serving.service import Service
from chainrule.training.callbacks import Record
from chainrule.training.journal import LAST, events

JOURNAL = "metrics.jsonl"
MOST_STEPS = 500  # of one answer; of more, some from all along
ENDING = ".unfinished"


class Trainings:
    """By name, the path that each run has or will have."""

    def __init__(self, library: Library):
        self._homes = library.homes
        self._paths = {served.id: served.run.path.resolve() for served in library}
        self._lock = threading.Lock()  # routes run side by side

    def table(self) -> dict[str, Path]:
        """Those that were seen under way stay in it when they end."""
        with self._lock:
            known = set(self._paths.values())
            for home in self._homes:
                for folder in sorted(home.glob(f".*{ENDING}")):
                    path = home / folder.name[1 : -len(ENDING)]
                    if path not in known and (folder / JOURNAL).is_file():
                        name = path.name if path.name not in self._paths else path.as_posix()
                        self._paths[name] = path
            return dict(self._paths)

    def find(self, name: str) -> Path:
        table = self.table()
        if name not in table:
            shown = name if len(name) <= 80 else f"{name[:80]}…"
            raise Problem(404, f"there is no training '{shown}'{did_you_mean(shown, table)}", "not_found", "name")
        return table[name]


def read(path: Path) -> tuple[str, list[Record]]:
    """What a training does, and its events: an unfinished one goes before the finished run that it will replace."""
    folder = unfinished(path)
    if (folder / JOURNAL).is_file():
        return "training" if is_locked(folder) else "stopped", list(events(folder / JOURNAL))
    return "done", list(events(path / JOURNAL))


def summary(name: str, path: Path) -> dict[str, Any]:
    """The latest figures."""
    status, happened = read(path)
    by_kind = {event["event"]: event for event in happened}  # the last of each
    begin, step, evaluation, last = (by_kind.get(kind, {}) for kind in ("begin", "step", "evaluation", LAST))
    validation = last.get("validation") or evaluation
    return {
        "name": name,
        "status": status,
        "events": len(happened),
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
        "probes": sum(event["event"] == "probe" for event in happened),
        "samples": sum(event["event"] == "sample" for event in happened),
    }


def thinned(happened: list[Record]) -> list[Record]:
    """All events but steps; of those at most MOST_STEPS, evenly, the last among them."""
    steps = [place for place, event in enumerate(happened) if event["event"] == "step"]
    if len(steps) <= MOST_STEPS:
        return happened
    kept = {steps[-1 - number * len(steps) // MOST_STEPS] for number in range(MOST_STEPS)}
    return [event for place, event in enumerate(happened) if event["event"] != "step" or place in kept]


def add_routes(app: FastAPI, service: Service) -> None:
    trainings = Trainings(service.library)

    @app.get("/trainings", summary="Runs and trainings under way, with their latest figures.", responses=ERRORS)
    def listed() -> dict[str, Any]:
        return {"data": [summary(name, path) for name, path in trainings.table().items()]}

    @app.get("/trainings/{name:path}", summary="What happened in one of them, as its journal says.", responses=ERRORS)
    def one(name: str, since: Annotated[int, Query(ge=0, le=2**53)] = 0) -> dict[str, Any]:
        """`since`: how many events are known already; `events` in the answer is what to ask with next. A journal
        that was taken back, as a resumed training does, is shorter than that: then everything is told again."""
        path = trainings.find(name)
        status, happened = read(path)
        begin = since if since <= len(happened) else 0
        found = {"name": name, "status": status, "begin": begin, "events": len(happened)}
        return found | {"data": thinned(happened[begin:])}
