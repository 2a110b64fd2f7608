"""The leaderboard in a browser: rows in the order that is asked for, and the points that nothing cheaper beats."""

from typing import Any

import pytest

from chainrule.analysis.compare.compare import default_path
from tests.serving.page.waiting import until

ROWS = [
    # name, bits, seconds, parameters
    ("transformer", 2.0, 60.0, 8_000_000),
    ("ngram-5", 2.1, 0.2, 256_000),
    ("gru", 2.2, 61.0, 533_000),
    ("ngram-1", 4.7, 0.1, 66),
]


def table() -> dict[str, Any]:
    best = {"p_value": None, "generation_speed": 300.0, "sample": "To be", "id": None, "behind_interval": None}
    models = [
        {"model": name, "bits": bits, "interval": [bits - 0.02, bits + 0.02], "behind": bits - 2.0, **best}
        | {"seconds": seconds, "parameters": parameters}
        for name, bits, seconds, parameters in ROWS
    ]
    why = {"worse": "ngram-1", "better": "ngram-5", "why": "more context", "gain": 2.6, "interval": [2.5, 2.7]}
    return {
        "verdict": "transformer is best.", "bits_per": "byte", "documents": 727, "bytes": 119718, "models": models,
        "left_out": [], "notes": [], "expectations": [why | {"verdict": "so it is"}],
    }  # fmt: skip


@pytest.fixture
def shown(page: Any) -> Any:
    page.route("**/leaderboards", lambda route: route.fulfill(json={"data": [{"name": "cows", "table": table()}]}))
    page.goto("/#/leaderboard")
    until(page, "document.querySelectorAll('.leaders tbody tr').length === 4")
    return page


def order(page: Any) -> list[str]:
    return page.eval_on_selector_all(".leaders tbody tr", "all => all.map(each => each.dataset.model)")


@pytest.mark.parametrize(("key", "number"), [("bits", 1), ("seconds", 2), ("parameters", 3), ("model", 0)])
def test_heads_sort_and_sort_back(shown: Any, key: str, number: int):
    shown.click(".sorter[data-key=p_value]")
    shown.click(f".sorter[data-key={key}]")
    expected = [row[0] for row in sorted(ROWS, key=lambda row: row[number])]
    assert order(shown) == expected
    assert shown.get_attribute("th[aria-sort]", "aria-sort") == "ascending"
    shown.keyboard.press("Enter")  # the head keeps the focus
    assert order(shown) == expected[::-1]
    assert shown.get_attribute("th[aria-sort]", "aria-sort") == "descending"


def test_the_line_joins_those_that_nothing_cheaper_beats(shown: Any):
    def front() -> set[str]:
        return set(shown.eval_on_selector_all(".pareto text.front", "all => all.map(each => each.textContent)"))

    assert front() == {"ngram-1", "ngram-5", "transformer"}
    shown.select_option("#cost", "parameters")
    assert front() == {"ngram-1", "ngram-5", "transformer"}


def test_without_a_comparison_it_says_how_to_make_one(page: Any):
    page.goto("/#/leaderboard")
    until(page, "document.querySelector('.nothing') !== null")
    said = page.inner_text(".nothing")
    assert "chainrule compare poems.txt" in said
    assert f"chainrule serve {default_path(['poems.txt']).as_posix()}" in said  # the folder that `compare` writes
