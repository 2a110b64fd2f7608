"""The tutorial's commands, run in their order on a small text: what it tells people to do works.

Blocks of `sh` are run; those of `shell` (installing) and `text` (output) are not.
"""

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.docs.shell import ROOT, free_port, make_environment, run, served

PAGE = ROOT / "docs" / "tutorial" / "first-model.md"
SMALL = 60_000  # characters of the tutorial's text that are enough here
PORT = "8000"  # the page's

pytestmark = pytest.mark.skipif(shutil.which("curl") is None or os.name != "posix", reason="needs a shell and curl")


def blocks() -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """`chainrule` is that of this interpreter, whether it is installed as a script or not."""
    return make_environment(tmp_path / "bin") | {"COLUMNS": "80"}


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
