"""The surprise strip in a browser: its numbers are /compare's, and jumping goes where models disagree most."""

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.serving.page.waiting import until

TEXT = "On day 7 the purple – cow sings.\nShe eats grass."
START = "#/surprise?" + urlencode({"text": TEXT, "models": "ngram,lstm,transformer"})


def compare(page: Any, **body: Any) -> dict[str, Any]:
    answer = page.request.post("/compare", data=json.dumps(body), headers={"Content-Type": "application/json"})
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture
def shown(page: Any) -> Any:
    page.goto(f"/{START}")
    until(page, "document.querySelectorAll('.summary tbody tr').length === 3")
    return page


def test_the_table_has_the_numbers_of_the_api(shown: Any):
    expected = compare(shown, text=TEXT, models=["ngram", "lstm", "transformer"])
    rows = shown.eval_on_selector_all(
        ".summary tbody tr", "all => all.map(each => [each.dataset.model, each.dataset.bits])"
    )
    assert [(model, float(bits)) for model, bits in rows] == [
        (each["model"], each["bits"]) for each in expected["models"]
    ]


def told(page: Any) -> list[str]:
    return page.eval_on_selector_all(".told-span td:nth-child(2)", "all => all.map(each => each.textContent)")


def test_jumping_goes_through_the_largest_disagreements(shown: Any):
    expected = compare(shown, text=TEXT, models=["ngram", "lstm", "transformer"])
    for number, place in enumerate([*expected["disagreements"], expected["disagreements"][0]]):
        if number:
            shown.keyboard.press("n")
        assert told(shown) == [f"{bits:.2f} bits" for bits in expected["spans"][place]["bits"]]
    shown.keyboard.press("p")
    last = expected["spans"][expected["disagreements"][-1]]
    assert told(shown) == [f"{bits:.2f} bits" for bits in last["bits"]]


def test_arrow_keys_go_from_piece_to_piece_and_the_cursor_stands_on_it(shown: Any):
    spans = compare(shown, text=TEXT, models=["ngram", "lstm", "transformer"])["spans"]
    for _ in spans:
        shown.keyboard.press("ArrowLeft")
    for span in spans[:6]:
        assert told(shown) == [f"{bits:.2f} bits" for bits in span["bits"]]
        left, width = shown.eval_on_selector(
            ".cursor:not(.hidden)", "each => [parseFloat(each.style.left), parseFloat(each.style.width)]"
        )
        assert (left, width) == (span["begin"], span["end"] - span["begin"])
        shown.keyboard.press("ArrowRight")


def test_the_text_in_the_strip_is_the_text(shown: Any):
    lines = shown.eval_on_selector_all(".strip-text", "all => all.map(each => each.textContent)")
    assert "".join(lines).replace("⏎", "\n") == TEXT


def test_another_text_is_measured(shown: Any):
    shown.fill("textarea", "hay")
    shown.keyboard.press("Control+Enter")
    expected = compare(shown, text="hay", models=["ngram"])["models"][0]["bits"]
    until(shown, f"Number(document.querySelector('.summary tr[data-model=ngram]').dataset.bits) === {expected}")
