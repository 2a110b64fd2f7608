"""Timing whole processes and pieces of code: medians of interleaved repeats, with the peak memory beside them."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field


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


def run_process(command: list[str]) -> tuple[float, float]:
    """(wall-clock seconds, peak resident megabytes) of a command."""
    started_at = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.perf_counter() - started_at
    if status != 0:
        assert process.stderr is not None
        sys.exit(f"{' '.join(command)} failed:\n{process.stderr.read().decode()}")
    return elapsed, usage.ru_maxrss / 1024


def interleave_processes(commands: dict[str, list[str]], repeats: int) -> dict[str, Timing]:
    """Each command once per round, so that a noisy minute hits all of them."""
    timings = {name: Timing() for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            seconds, megabytes = run_process(command)
            timings[name].seconds.append(seconds)
            timings[name].megabytes.append(megabytes)
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
