"""Surprise, training, leaderboard, graph and game: accessible, narrow enough for a phone, in light and in dark."""

from typing import Any

import pytest

from tests.serving.page.accessible import assert_accessible
from tests.serving.page.test_leaderboard_view import table
from tests.serving.page.waiting import until

VIEWS = {  # the address, and what is there once it is drawn
    "surprise": ("#/surprise?text=On+day+7", ".told-span td"),
    "training": ("#/training?runs=lstm,transformer,ngram&run=lstm", ".looks .face"),
    "leaderboard": ("#/leaderboard", ".leaders td"),
    "graph": ("#/graph?model=attention&length=2", ".node"),
    "game": ("#/game?seed=7&characters=60", ".weighed"),
}


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_no_serious_problem_and_no_sideways_scrolling(page: Any, view: str, scheme: str, width: int):
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    page.route("**/leaderboards", lambda route: route.fulfill(json={"data": [{"name": "cows", "table": table()}]}))
    address, drawn = VIEWS[view]
    page.goto(f"/{address}")
    if view == "game":
        until(page, "document.querySelectorAll('.option').length > 1", 60)
        page.keyboard.press("a")
    page.wait_for_selector(drawn, state="attached", timeout=60_000)
    assert_accessible(page)
