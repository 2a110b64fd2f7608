"""The dice in a browser: bars and lines are the API's numbers, one number for all, and stepping is sampling."""

import json
from typing import Any

import pytest

from tests.serving.page.waiting import until

START = "#/dice?models=ngram,lstm,transformer&prompt=On+day+7+the&seed=5"
TEMPERATURE = 0.8  # where the page begins; the routes begin at 1


def ready(page: Any, columns: int = 3) -> None:
    until(page, f"document.querySelectorAll('.column .face.others').length === {columns}")


def roll(page: Any, prompt: str, number: float) -> list[dict[str, Any]]:
    body = {"columns": [{"model": each, "prompt": prompt} for each in ("ngram", "lstm", "transformer")], "roll": number}
    answer = page.request.post(
        "/dice",
        data=json.dumps(body | {"faces": 8, "temperature": TEMPERATURE}),
        headers={"Content-Type": "application/json"},
    )
    columns: list[dict[str, Any]] = answer.json()["columns"]
    return columns


def test_bars_sum_to_one_and_are_the_apis_numbers(page: Any):
    page.goto(f"/{START}&rolls=0.7")
    ready(page)
    for column in roll(page, "On day 7 the", 0.7):
        place = f'.column[data-model="{column["model"]}"]'
        bars = page.eval_on_selector_all(f"{place} .face", "all => all.map(each => Number(each.dataset.probability))")
        assert sum(bars) == pytest.approx(1, abs=1e-6)
        assert bars[: len(column["faces"])] == [face["probability"] for face in column["faces"]]
        drawn = page.get_attribute(f"{place} .piece.drawn", "data-id")
        assert int(drawn) == column["drawn"]["id"]
        rect = page.locator(f"{place} .piece.drawn rect")
        assert float(rect.get_attribute("data-begin")) <= 0.7 < float(rect.get_attribute("data-end"))


def test_the_number_is_marked_at_the_same_height_on_every_line(page: Any):
    page.goto(f"/{START}&rolls=0.25")
    ready(page)
    found = page.eval_on_selector_all(
        ".lines",
        "all => all.map(each => [each.getBoundingClientRect().top, getComputedStyle(each, '::after').top,"
        " each.getBoundingClientRect().height])",
    )
    assert len(found) == 3 and len({top for top, _, _ in found}) == 1
    for _, marked, height in found:
        assert float(marked.removesuffix("px")) == pytest.approx(0.25 * height, abs=0.1)


def test_steps_take_the_numbers_of_the_seed_as_completions_do(page: Any):
    page.goto(f"/{START}")
    ready(page)
    for step in range(1, 5):
        page.click("button:has-text('Step')")
        until(page, f"document.querySelector('.roll').textContent.includes('step {step}')")
        until(
            page,
            f"[...document.querySelectorAll('.said')].every(each => each.querySelectorAll('.token').length === {step})",
        )
    for model in ("ngram", "lstm", "transformer"):
        body = {"model": model, "prompt": "On day 7 the", "seed": 5, "max_tokens": 4, "temperature": TEMPERATURE}
        answer = page.request.post(
            "/v1/completions", data=json.dumps(body), headers={"Content-Type": "application/json"}
        )
        text = page.text_content(f'.column[data-model="{model}"] .said')
        assert text.replace("⏎", "") == "On day 7 the" + answer.json()["choices"][0]["text"]

    again = page.context.new_page()
    again.goto(page.url)
    until(
        again,
        "document.querySelectorAll('.said').length === 3 &&"
        " [...document.querySelectorAll('.said')].every(each => each.querySelectorAll('.token').length === 4)",
    )
    assert again.locator(".said").all_text_contents() == page.locator(".said").all_text_contents()


def test_rolling_again_changes_the_number_for_all_and_the_address(page: Any):
    page.goto(f"/{START}")
    ready(page)
    before = page.text_content("#roll-number")
    page.keyboard.press("r")
    until(page, f"document.querySelector('#roll-number').textContent !== '{before}'")
    until(page, "/rolls=[0-9.e-]+$/.test(location.hash) && !/rolls=1$/.test(location.hash)")
    number = float(page.url.split("rolls=")[1])
    for column in roll(page, "On day 7 the", number):
        drawn = page.get_attribute(f'.column[data-model="{column["model"]}"] .piece.drawn', "data-id")
        assert int(drawn) == column["drawn"]["id"]


def test_every_kind_shows_its_evidence(page: Any):
    page.goto(f"/{START}&evidence=1")
    ready(page)
    for model, title in (("ngram", "back-off ladder"), ("lstm", "state"), ("transformer", "Logit lens")):
        page.wait_for_selector(f'.column[data-model="{model}"] h4:has-text("{title}")')
    page.wait_for_selector('.column[data-model="ngram"] .sightings li:has-text("cows.txt:")')
    column = page.locator('.column[data-model="transformer"]')
    tints = "all => all.map(each => Number(getComputedStyle(each).getPropertyValue('--level')))"
    from_last = column.locator(".attention .tint").evaluate_all(tints)
    assert sum(from_last) == pytest.approx(1, abs=0.02)
    column.locator(".attention .tint").nth(1).hover()
    from_second = column.locator(".attention .tint").evaluate_all(tints)
    assert sum(from_second[:2]) == pytest.approx(1, abs=0.01) and sum(from_second[2:]) == 0
    column.locator(".attention .tint").nth(1).click()  # held
    page.mouse.move(5, 5)
    assert column.locator(".attention .tint").evaluate_all(tints) == from_second
    column.locator("button[aria-label='Next head']").click()
    assert column.locator(".stepper").nth(1).text_content().startswith("‹Head 2 of")


def test_playing_goes_on_by_itself_until_paused(page: Any):
    page.goto(f"/{START}")
    ready(page)
    page.keyboard.press("p")
    until(page, "document.querySelector('.roll').textContent.includes('step 2')")
    page.keyboard.press("p")
    page.wait_for_timeout(300)
    said = page.locator(".said").all_text_contents()
    page.wait_for_timeout(1500)
    assert page.locator(".said").all_text_contents() == said
