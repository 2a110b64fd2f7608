"""Every relative link in the Markdown files leads to a file, and every anchor to a heading."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")


def prose(page: Path) -> str:
    """The page without its blocks of code, where brackets are not links."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives a page's headings: lower case, no punctuation, hyphens between words."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"{page.relative_to(ROOT)} links to {link}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.relative_to(ROOT)} links to {link}"


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(prose(index))}
    assert {page.resolve() for page in (ROOT / "docs").rglob("*.md")} - {index.resolve()} <= linked
