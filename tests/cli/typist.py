"""A person at a terminal of 80 columns: what they type into a command, and what they see."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

COLUMNS = 80
PATIENCE = 120.0  # seconds; no test is decided by a slow machine
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
OWN_TERMINAL = (  # makes the terminal the one whose Ctrl-C reaches the command
    "import fcntl, os, sys, termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "os.execv(sys.executable, [sys.executable, '-m', 'chainrule', *sys.argv[1:]])\n"
)
PROMPT = ">>> "
ROOT = Path(__file__).parents[2]
SHARED = {"TERM": "xterm", "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8", "PYTHONPATH": str(ROOT)}
CTRL_C, CTRL_D = "\x03", "\x04"


class Typist:
    """Runs `chainrule` with these arguments on a terminal; a context that ends it."""

    def __init__(self, *arguments: str, folder: Path) -> None:
        self._screen, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "INPUTRC")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", OWN_TERMINAL, *arguments],
            cwd=folder, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
            env=environment | SHARED,
        )  # fmt: skip
        os.close(terminal)
        self._unseen = b""

    def __enter__(self) -> "Typist":
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(PATIENCE)
        os.close(self._screen)

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def until(self, text: str, key: str = "") -> str:
        """All that is seen up to this text. A `key` is pressed for it, every ten seconds: readline misses a Ctrl-C that
        comes before it waits for keys."""
        end = text.encode()
        began = pressed = time.monotonic()
        self.type(key)
        while end not in self._unseen:
            is_open = self._read()
            now = time.monotonic()
            assert is_open and now < began + PATIENCE, f"{text!r} does not come after {self._unseen!r}"
            if key and now > pressed + 10:
                self.type(key)
                pressed = now
        seen, _, self._unseen = self._unseen.partition(end)
        return (seen + end).decode()

    def answer(self, line: str) -> str:
        """Type a line and Enter; returns what is seen from there to the next prompt."""
        self.type(f"{line}\n")
        self.until("\n")
        return ESCAPE.sub("", self.until(PROMPT)).removesuffix(PROMPT).strip()

    def leave(self, keys: str = CTRL_D) -> int:
        """Type this and wait for the end; returns the exit code."""
        self.type(keys)
        until = time.monotonic() + PATIENCE
        while self._read():
            assert time.monotonic() < until, f"it does not end after {self._unseen!r}"
        return self._process.wait(PATIENCE)

    def _read(self) -> bool:
        """Take in what has come; returns whether more may come."""
        if not select.select([self._screen], [], [], 1.0)[0]:
            return True
        try:
            new = os.read(self._screen, 1 << 16)
        except OSError:  # how Linux says that the other side is closed
            return False
        self._unseen += new
        return bool(new)
