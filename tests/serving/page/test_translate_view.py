"""BeamSearchJob in a browser: texts, scores, squares and branches are the API's, and words light each other up."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving.page.accessible import assert_accessible
from tests.serving.page.conftest import served
from tests.serving.page.waiting import until

START = "#/translate?model=cross&beam=4&text=rot+blau+neu"


@pytest.fixture(scope="module")
def address(toys: list[Path], translators: list[Path]) -> Iterator[str]:
    """Translators beside an n-gram."""
    with served([toys[0], *translators]) as found:
        yield found


@pytest.fixture(scope="module")
def only_translators(translators: list[Path]) -> Iterator[str]:
    with served(translators) as found:
        yield found


def ask(page: Any, path: str, **body: Any) -> Any:
    answer = page.request.post(path, data=json.dumps(body), headers={"Content-Type": "application/json"})
    return answer.json()


@pytest.fixture
def shown(page: Any) -> Any:
    page.goto(f"/{START}")
    page.wait_for_selector(".beam")
    return page


def squares(page: Any) -> list[list[float]]:
    rows = "all => all.map(row => [...row.querySelectorAll('td')].map(each => Number(each.dataset.value)))"
    found: list[list[float]] = page.eval_on_selector_all(".map tbody tr", rows)
    return found


def test_texts_and_scores_are_the_apis(shown: Any):
    (expected,) = ask(shown, "/v1/translate", model="cross", text="rot blau neu", beam=4, n=4)["translations"]
    assert shown.text_content("#target") == expected["text"]
    scores = shown.eval_on_selector_all("[data-score]", "all => all.map(each => Number(each.dataset.score))")
    assert scores == [expected["score"], *(each["score"] for each in expected["others"])]
    assert shown.locator(".others td:nth-child(3)").all_text_contents() == [each["text"] for each in expected["others"]]


def test_the_map_has_the_numbers_of_the_api_and_turns_to_attribution(shown: Any):
    expected = ask(shown, "/alignment", model="cross", text="rot blau neu", beam=4)
    assert squares(shown) == expected["attention"]
    levels = "all => all.map(each => Number(getComputedStyle(each).getPropertyValue('--level')))"
    drawn = shown.eval_on_selector_all(".map .square", levels)
    assert drawn == pytest.approx([value for row in expected["attention"] for value in row], abs=1e-4)
    shown.click("button:has-text('Attribution')")
    assert squares(shown) == expected["attribution"]
    assert "map=attribution" in shown.url
    against = [value < 0 for row in expected["attribution"] for value in row]
    assert shown.eval_on_selector_all(".map .square", "all => all.map(e => e.classList.contains('against'))") == against


def test_pointing_at_a_word_lights_up_those_of_the_other_side(shown: Any):
    attention = ask(shown, "/alignment", model="cross", text="rot blau neu", beam=4)["attention"]
    tints = "all => all.map(each => Number(getComputedStyle(each).getPropertyValue('--level')))"
    source, target = (shown.locator(".linked").nth(side).locator(".tint") for side in (0, 1))
    target.nth(1).hover()
    assert source.evaluate_all(tints) == pytest.approx(attention[1], abs=1e-4)
    assert sum(target.evaluate_all(tints)) == 0
    assert shown.locator(".map tr.lit").get_attribute("data-row") == "1"
    source.nth(2).focus()
    assert target.evaluate_all(tints) == pytest.approx([row[2] for row in attention], abs=1e-4)
    shown.keyboard.press("ArrowLeft")
    assert target.evaluate_all(tints) == pytest.approx([row[1] for row in attention], abs=1e-4)
    assert shown.text_content(".told").startswith("blau was looked at by ")


def test_the_beam_is_drawn_whole(shown: Any):
    steps = ask(shown, "/alignment", model="cross", text="rot blau neu", beam=4)["beam"]
    assert shown.locator(".beam text").count() == sum(map(len, steps))
    assert shown.locator(".beam text.best").count() == sum(branch["is_best"] for step in steps for branch in step)
    assert shown.locator(".beam path").count() == sum(branch["parent"] is not None for step in steps for branch in step)


def test_enter_translates_another_text_and_the_address_gives_it_again(shown: Any):
    shown.fill("#source", "klein alt")
    shown.keyboard.press("Enter")
    (expected,) = ask(shown, "/v1/translate", model="cross", text="klein alt", beam=4)["translations"]
    until(shown, f"document.querySelector('[data-score]').dataset.score === '{expected['score']}'")
    assert shown.input_value("#source") == "klein alt" and "text=klein+alt" in shown.url
    again = shown.context.new_page()
    again.goto(shown.url)
    again.wait_for_selector(".beam")
    assert again.text_content("#target") == expected["text"]


def test_another_model_answers_for_itself(shown: Any):
    (expected,) = ask(shown, "/v1/translate", model="additive", text="rot blau neu", beam=4)["translations"]
    shown.select_option("select", "additive")
    until(shown, f"document.querySelector('[data-score]').dataset.score === '{expected['score']}'")
    assert "model=additive" in shown.url


def test_what_goes_wrong_is_told_in_a_sentence(shown: Any):
    shown.fill("#source", "rot " * 256)
    shown.keyboard.press("Enter")
    shown.wait_for_selector(".toast.failure.shown")
    assert "The text has 256 tokens but this model reads 255" in shown.text_content(".toast")


def test_it_stands_among_the_other_views_where_there_are_language_models(page: Any):
    page.goto("/")
    page.wait_for_selector("#prompt")
    names = page.locator("[role=tab]").all_text_contents()
    assert names[:5] == ["Playground", "Chat", "Dice", "Surprise", "Translate"]
    assert page.locator("select option").all_text_contents()[0].startswith("ngram")  # and no translator
    page.keyboard.press("5")
    page.wait_for_selector("#source")


def test_alone_it_comes_first_and_the_others_say_what_is_missing(page: Any, only_translators: str):
    page.goto(f"{only_translators}/")
    page.wait_for_selector("#source")
    assert page.title() == "Translate · Chainrule"
    for view in ("playground", "dice", "surprise", "game"):
        page.click(f"#tab-{view}")
        until(page, f"document.title.toLowerCase().startsWith('{view}')")
        assert "none is served here" in page.text_content(".nothing")
    assert_accessible(page)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_problem_and_no_sideways_scrolling(page: Any, scheme: str, width: int):
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    page.goto(f"/{START}&map={'attribution' if scheme == 'dark' else 'attention'}")
    page.wait_for_selector(".beam")
    page.locator(".linked").nth(1).locator(".tint").nth(1).hover()
    assert_accessible(page)
