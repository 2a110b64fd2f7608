"""The guide to serving: its commands make the runs, and its programs and requests are answered by a server of them."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.docs.shell import ROOT, blocks, free_port, make_environment, run, served, with_small_budgets
from tests.docs.test_guides import TEXT
from tests.tasks.toys import write_pairs

PAGE = ROOT / "docs" / "guides" / "serving.md"
PORT = "8000"  # the page's

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None or os.name != "posix", reason="needs a shell and curl"),
]


def test_the_programs_and_requests_of_the_guide_are_answered(tmp_path: Path) -> None:
    folder, port, environment = tmp_path / "home", free_port(), make_environment(tmp_path / "bin")
    folder.mkdir()
    (folder / "poems.txt").write_text(TEXT[:20_000])
    write_pairs(folder / "pairs.tsv")
    for block in blocks(PAGE):
        run(with_small_budgets(block), folder, environment)
    run("chainrule train --task translation pairs.tsv --steps 3 --as runs/de-en", folder, environment)
    program = folder / "program.py"
    program.write_text("\n".join(blocks(PAGE, "python")).replace(PORT, port))
    request = re.findall(r"^```\n(curl.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)[0]
    with served(f"chainrule serve runs/poems runs/poems-lstm runs/de-en --port {port}", folder, environment):
        printed = run(f'"{sys.executable}" program.py', folder, environment)
        answer = run(request.replace(PORT, port), folder, environment)
    assert len(printed.strip().splitlines()) >= 3 and printed.strip().endswith("]")  # texts, then a vector
    assert '"object":"translation"' in answer.replace(" ", "")
