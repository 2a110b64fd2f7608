"""A page that everybody can use: nothing serious for axe, and nothing to scroll sideways for."""

from typing import Any

import pytest


def assert_accessible(page: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    found = axe.Axe().run(page).response["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert [(each["id"], [node["html"][:200] for node in each["nodes"]][:3]) for each in serious] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
