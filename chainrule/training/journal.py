"""metrics.jsonl: one JSON object per event of training, each line written through as it happens.

A run that was killed and resumed has the same journal as one that was not: `rewind` takes back what the resumed run
will do again. For that, what belongs to a step is to be journalled before the checkpoint of that step is written.
"""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, cast

import numpy as np

from chainrule.config import without_infinities
from chainrule.runs.records import parse_event
from chainrule.training.callbacks import Callback, Record

LAST = "trained"  # the event that every run ends with; it is written with the run, of counting models too


class Journal(Callback):
    """Writes every event of training to metrics.jsonl; messages, which are for people, are not written."""

    def __init__(self, path: Path):
        self.path = path
        self._file: IO[bytes] | None = None

    def on_event(self, record: Record) -> None:
        """Journal every event but the end; a resumed run has its beginning already."""
        is_known = record["event"] == "begin" and next(events(self.path), None) is not None
        if record["event"] != "end" and not is_known:
            self._append(record)

    def close(self) -> None:
        if self._file:
            self._file.close()
        self._file = None

    def rewind(self, step: int) -> None:
        """Drop torn lines, all events after `step`, and the end: training goes on from there."""
        self.close()
        if not self.path.exists():
            return
        kept = [line for line, event in _lines(self.path) if event.get("step", 0) <= step and event["event"] != LAST]
        new = self.path.with_name(f"{self.path.name}.tmp")
        with open(new, "wb") as file:
            file.writelines(line + b"\n" for line in kept)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)

    def _append(self, record: Record) -> None:
        if self._file is None:
            _cut_torn_end(self.path)
            self._file = open(self.path, "ab")  # noqa: SIM115 (closed by close)
        self._file.write(json.dumps(without_infinities(record), allow_nan=False).encode() + b"\n")
        self._file.flush()


def events(path: Path) -> Iterator[Record]:
    """The events of a journal that may still be written to, or whose writer was killed; none if there is no file."""
    if path.exists():
        for _, event in _lines(path):
            yield event


def column(records: Sequence[Record], name: str) -> np.ndarray:
    """One figure of every record as an array, NaN where it is None."""
    return np.array([np.nan if each[name] is None else each[name] for each in records], np.float64)


def _lines(path: Path) -> Iterator[tuple[bytes, Record]]:
    """Every complete line of the file, with its event."""
    with open(path, "rb") as file:
        for line in file:
            try:
                yield line.rstrip(b"\n"), cast(Record, parse_event(line))
            except (ValueError, KeyError, TypeError):
                continue


def _cut_torn_end(path: Path) -> None:
    """Remove an incomplete last line, which a killed process may have left."""
    if not path.exists():
        return
    with open(path, "rb+") as file:
        data = file.read()
        file.truncate(data.rfind(b"\n") + 1)
