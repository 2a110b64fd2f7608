"""Real `chainrule` processes that start at once: a server imports torch one time and forks for every command."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

SERVER = """
import json, os, signal, sys, time, traceback
import chainrule.cli.main, chainrule.training.pipeline, chainrule.generation
import torch
torch.set_num_threads(1)

def run(request):
    os.chdir(request["folder"])
    for number, name, flags in ((0, os.devnull, os.O_RDONLY), (1, request["output"], os.O_WRONLY | os.O_CREAT)):
        os.dup2(os.open(name, flags, 0o600), number)
    os.dup2(1, 2)
    sys.stdin = open(os.devnull)
    sys.argv = ["chainrule", *request["arguments"]]
    try:
        chainrule.cli.main.main()
    except SystemExit as end:
        return end.code or 0
    except BaseException:
        traceback.print_exc()
    return 1

def wait(process):
    until = time.monotonic() + 120
    while True:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.kill(process, signal.SIGKILL)
        time.sleep(0.01)

for line in sys.stdin:
    request = json.loads(line)
    if "wait" in request:
        print(wait(request["wait"]), flush=True)
        continue
    process = os.fork()
    if not process:
        code = run(request)
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)
    print(process, flush=True)
"""


@dataclass
class Process:
    commands: "Commands"
    number: int
    output: Path

    def send(self, signal_number: int) -> None:
        os.kill(self.number, signal_number)

    def wait(self) -> tuple[int, str]:
        """Its exit code, negative where a signal ended it, and all that it said."""
        code = int(self.commands.ask({"wait": self.number}))
        return code, self.output.read_text()


class Commands:
    def __init__(self, folder: Path):
        self.folder, self.count = folder, 0
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "400"}
        self.server = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, request: dict[str, object]) -> str:
        assert self.server.stdin and self.server.stdout
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        return self.server.stdout.readline()

    def start(self, *arguments: object) -> Process:
        """`chainrule ARGUMENTS` in the current folder."""
        self.count += 1
        output = self.folder / f"{self.count}.txt"
        request = {"arguments": [str(each) for each in arguments], "folder": os.getcwd(), "output": str(output)}
        return Process(self, int(self.ask(request)), output)

    def run(self, *arguments: object) -> tuple[int, str]:
        return self.start(*arguments).wait()

    def close(self) -> None:
        assert self.server.stdin and self.server.stdout
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()


def serve(folder: Path) -> Iterator[Commands]:
    commands = Commands(folder)
    yield commands
    commands.close()


def until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for it; a timing never decides a test, so the limit is long."""
    limit = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < limit, "this never came to be"
        time.sleep(0.005)


def steps_journalled(run: Path) -> int:
    """How far an unfinished training is."""
    journal = run.with_name(f".{run.name}.unfinished") / "metrics.jsonl"
    return journal.read_text().count('"event": "step"') if journal.exists() else 0
