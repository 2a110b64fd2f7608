"""Commands of the documentation, run in a shell whose `chainrule` is this one, on a terminal of 80 columns.

Blocks of `sh` are run; those of `shell` (installing, models from elsewhere, an hour of training) and of `text` (output)
are not. Budgets are made small, everything else is run as it stands.
"""

import fcntl
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
COLUMNS = 80
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
PATIENCE = 300.0  # seconds; no test is decided by a slow machine


def blocks(page: Path, language: str = "sh") -> list[str]:
    """The blocks of a page in that language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def with_small_budgets(block: str) -> str:
    return re.sub(r"--steps \d+", "--steps 3", re.sub(r"--minutes \d+", "--minutes 0.02", block))


def make_environment(programs: Path) -> dict[str, str]:
    """`chainrule` and `python3` are of this interpreter, whether they are installed as scripts or not."""
    programs.mkdir()
    script = programs / "chainrule"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m chainrule "$@"\n')
    script.chmod(0o755)
    (programs / "python3").symlink_to(sys.executable)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TERM": "xterm"}


def run_on_terminal(block: str, folder: Path, environment: dict[str, str]) -> str:
    """Run a block with its output on a terminal of 80 columns; returns what was printed there, without colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    errors = folder / "errors.txt"
    with errors.open("w") as said:
        process = subprocess.Popen(["sh", "-e", "-c", block], cwd=folder, env=environment, stdout=theirs, stderr=said)
    os.close(theirs)
    printed = b""
    try:
        while piece := os.read(ours, 1 << 16):
            printed += piece
    except OSError:  # how Linux says that the other side is closed
        pass
    finally:
        os.close(ours)
    code = process.wait(PATIENCE)
    assert code == 0, f"{block}\n{printed.decode()}\n{errors.read_text()}"
    return ESCAPE.sub("", printed.decode())


def run(block: str, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["sh", "-e", "-c", block], cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


@contextmanager
def served(command: str, folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """A server, from the line in which it says that it is ready."""
    errors = folder / "serve.txt"
    with errors.open("w") as said:
        server = subprocess.Popen(["sh", "-c", f"exec {command}"], cwd=folder, env=environment, stderr=said)
        try:
            until = time.monotonic() + PATIENCE
            while "the page:" not in errors.read_text():
                assert server.poll() is None and time.monotonic() < until, errors.read_text()
                time.sleep(0.1)
            yield
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(PATIENCE)
