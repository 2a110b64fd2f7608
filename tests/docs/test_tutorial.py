"""The tutorial's commands, run in their order on a small text: what it tells people to do works.

Blocks of `sh` are run; those of `shell` (installing) and `text` (output) are not.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs.shell import make_environment

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial" / "first-model.md"
PATIENCE = 120.0  # seconds; no test is decided by a slow machine
SMALL = 60_000  # characters of the tutorial's text that are enough here
PORT = "8000"  # the page's

pytestmark = pytest.mark.skipif(shutil.which("curl") is None or os.name != "posix", reason="needs a shell and curl")


def blocks() -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """`chainrule` is that of this interpreter, whether it is installed as a script or not."""
    return make_environment(tmp_path / "bin") | {"COLUMNS": "80"}


def run(block: str, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["sh", "-e", "-c", block], cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@contextmanager
def served(command: str, folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """The server of the tutorial, from the line in which it says that it is ready."""
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


@pytest.mark.slow
def test_every_command_of_the_tutorial_works(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    port = free_port()
    found = [re.sub(r"--minutes \d+", "--minutes 0.1", block).replace(PORT, port) for block in blocks()]
    first = next(index for index, block in enumerate(found) if block.startswith("chainrule serve"))
    make_text, *training = found[:first]
    run(make_text, folder, environment)
    text = folder / "mine.txt"
    text.write_text(text.read_text(encoding="utf-8")[:SMALL], encoding="utf-8")
    outputs = [run(block, folder, environment) for block in training]
    assert "bits per byte" in outputs[0] and "runs/mine" in outputs[0]
    assert any(output.startswith("The function") for output in outputs), "a sample begins with its prompt"
    with served(f"{found[first].strip()} --port {port}", folder, environment):
        answers = [run(block, folder, environment) for block in found[first + 1 :]]
    assert '"object":"text_completion"' in answers[0].replace(" ", "")
    assert len(answers) == 1
