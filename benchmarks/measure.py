"""Timing whole processes and pieces of code: medians of interleaved repeats, with the peak memory beside them."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Timing:
    seconds: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def peak(self) -> float:
        return max(self.megabytes)


@dataclass(frozen=True)
class Ended:
    """A process that went well."""

    started_at: float
    seconds: float  # wall-clock
    megabytes: float  # peak resident memory
    output: str

    @property
    def json(self) -> dict[str, Any]:
        """What a command that was asked for JSON printed."""
        found: dict[str, Any] = json.loads(self.output)
        return found


def run_process(command: list[str], environment: Mapping[str, str] | None = None) -> Ended:
    """Runs it to its end from the root of this repository; one that fails ends the benchmark with its words."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        started_at, began = time.time(), time.perf_counter()
        process = subprocess.Popen(
            command, stdout=output, stderr=errors, cwd=ROOT, env={**os.environ, **(environment or {})}
        )
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:  # above all Ctrl-C: no training may stay behind
            process.kill()
            raise
        elapsed = time.perf_counter() - began
        output.seek(0)
        errors.seek(0)
        if status != 0:
            sys.exit(f"{' '.join(command)} failed:\n{errors.read()}{output.read()}")
        return Ended(started_at, elapsed, usage.ru_maxrss / 1024, output.read())


def interleave_processes(commands: dict[str, list[str]], repeats: int) -> dict[str, Timing]:
    """Each command once per round, so that a noisy minute hits all of them."""
    timings = {name: Timing() for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            ended = run_process(command)
            timings[name].seconds.append(ended.seconds)
            timings[name].megabytes.append(ended.megabytes)
    return timings


def interleave_calls(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, Timing]:
    """The same for functions, after one call each to warm up."""
    timings = {name: Timing() for name in calls}
    for call in calls.values():
        call()
    for _ in range(repeats):
        for name, call in calls.items():
            started_at = time.perf_counter()
            call()
            timings[name].seconds.append(time.perf_counter() - started_at)
    return timings
