"""docs/explanation/tape.md: every block of code, in order."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "tape.md"


def test_every_block_of_the_page_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 8
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    said = capsys.readouterr().out
    assert "Wrong: gradient of input 0 at [" in said
    for shown in ("[5. 7.]", "[5. 8.]", "12.0", "Unclear.backward must take", "walked back before, and freed"):
        assert shown in said
