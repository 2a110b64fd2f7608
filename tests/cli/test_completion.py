"""Pressing Tab: the shell asks the program what may stand at the cursor."""

import os
import subprocess
import sys

import pytest


def offered(line: str) -> list[str]:
    words = line.split(" ")
    asked = {"_CHAINRULE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    command = [sys.executable, "-m", "chainrule"]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | asked).stdout.split()


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("chainrule sample runs/po", ["runs/poems"]),
        ("chainrule sample po", ["poems"]),
        ("chainrule explain ", ["runs/mail", "runs/poems"]),
        ("chainrule show elsewhere/", ["elsewhere/old"]),
        ("chainrule train --resume ", ["runs/half"]),
        ("chainrule train --model ls", ["lstm"]),
        ("chainrule train --task tr", ["translation"]),
        ("chainrule export runs/poems --to gg", ["gguf", "gguf-adapter"]),
    ],
)
def test_runs_and_names_are_offered(tmp_path, line, names):
    for name in ("runs/poems", "runs/mail", "elsewhere/old"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.json").write_text("{}")
    (tmp_path / "runs/.half.unfinished").mkdir()
    (tmp_path / "runs/.half.unfinished/training.json").write_text("{}")
    assert offered(line) == names
