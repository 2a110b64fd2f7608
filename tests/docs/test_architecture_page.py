"""The files that documentation names exist; in docs/architecture.md, those of earlier versions stand under "Before"."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"


def test_every_file_that_the_page_names_exists() -> None:
    text = PAGE.read_text(encoding="utf-8")
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    present = re.sub(r"^Before.*?(?=^After)", "", text, flags=re.DOTALL | re.MULTILINE)
    renamed = re.sub(r"`[\w/]+\.py`\s+is\s+(?=`)", "", present)  # "`old.py` is `new.py`"
    named = re.findall(r"`((?:\w+/)+\w*(?:\.py)?|\w+\.py)`", renamed)
    missing = [name for name in named if not any((base / name).exists() for base in (ROOT, ROOT / "chainrule"))]
    assert len(named) > 50 and not missing


def test_the_map_has_every_package() -> None:
    (block,) = re.findall(r"## The map.*?```\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    packages = {path.parent.name for path in (ROOT / "chainrule").glob("*/__init__.py")}
    assert packages <= set(re.findall(r"(\w+)/ ", block))


def test_guides_and_explanations_name_files_that_exist() -> None:
    for page in [*(ROOT / "docs" / "guides").glob("*.md"), *(ROOT / "docs" / "explanation").glob("*.md")]:
        for name in re.findall(r"`(?:chainrule/)?(\w+/[\w/]+\.py)`", page.read_text(encoding="utf-8")):
            assert (ROOT / "chainrule" / name).exists(), f"{page.name} names {name}"
