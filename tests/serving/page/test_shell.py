"""The shell: tabs by keys, addresses, no serious problem of accessibility, and nothing from elsewhere."""

from typing import Any

import pytest

from tests.serving.page.accessible import assert_accessible
from tests.serving.page.waiting import until

VIEWS = {
    "playground": "#/playground?model=transformer&prompt=On+day&seed=3&max_tokens=40",
    "dice": "#/dice?models=ngram,lstm,transformer&prompt=On+day&evidence=1",
}


def test_tabs_are_walked_with_arrow_keys(page: Any):
    page.goto("/")
    page.wait_for_selector("#prompt")
    page.focus("#tab-playground")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".chat")
    assert page.evaluate("document.activeElement.id") == "tab-chat"
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".dice")
    assert page.url.split("?")[0].endswith("#/dice")
    assert page.get_attribute("#tab-dice", "aria-selected") == "true"
    assert page.evaluate("document.activeElement.id") == "tab-dice"
    assert page.title() == "Dice · Chainrule"


def test_numbers_choose_a_view_and_a_question_mark_lists_the_keys(page: Any):
    page.goto("/#/dice")
    page.wait_for_selector(".dice")
    page.keyboard.press("?")
    assert "roll again" in page.text_content("dialog[open]")
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    page.wait_for_selector("#prompt")
    page.focus("#prompt")
    page.keyboard.press("2")  # written, not obeyed
    assert page.input_value("#prompt") == "2"


def test_what_was_sampled_is_there_again_when_one_comes_back(page: Any):
    page.goto(f"/{VIEWS['playground']}")
    page.wait_for_selector('.text [data-place="8"]')
    until(page, "document.querySelector('.status').textContent.includes('tokens ·')")
    page.wait_for_timeout(500)
    before = page.text_content(".text")
    page.click("#tab-dice")
    page.wait_for_selector(".dice")
    page.click("#tab-playground")
    page.wait_for_selector('.text [data-place="8"]')
    assert page.text_content(".text") == before


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_no_serious_problem_and_no_sideways_scrolling(page: Any, view: str, scheme: str, width: int):
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    page.goto(f"/{VIEWS[view]}")
    page.wait_for_selector('.evidence-parts, .text [data-place="8"]')
    page.wait_for_timeout(1000)
    assert_accessible(page)


def test_everything_comes_from_this_server(page: Any, address: str):
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"/{VIEWS['dice']}")
    page.wait_for_selector(".evidence-parts")
    assert asked and all(url.startswith(address) for url in asked)


def test_what_goes_wrong_is_told_in_a_sentence(page: Any):
    page.goto("/#/playground?model=transformer")
    page.wait_for_selector("#prompt")
    page.fill("#prompt", "On day 7 the red cow eats. " * 40)
    with page.expect_response("**/v1/completions") as answer:
        page.keyboard.press("Control+Enter")
    assert answer.value.status == 400
    page.wait_for_selector(".toast.failure.shown")
    assert "this model reads 32" in page.text_content(".toast")
