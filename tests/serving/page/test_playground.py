"""The playground in a browser: what it shows is what the API says, and a link gives the same view again."""

import json
from math import exp
from typing import Any

import pytest

from tests.serving.page.waiting import until

PROMPT = "On day 7 the"
SEEDED = "#/playground?model=transformer&prompt=On+day+7+the&seed=3&max_tokens=40"


def finished(page: Any) -> None:
    until(page, "document.querySelector('.status')?.textContent.includes('tokens')")
    until(page, "[...document.querySelectorAll('button')].find(b => b.textContent === 'Stop').disabled")


def tokens(page: Any) -> list[str]:
    found: list[str] = page.eval_on_selector_all(".text .token", "all => all.map(each => each.textContent)")
    return found


def complete(page: Any, **body: Any) -> dict[str, Any]:
    """What the API itself answers."""
    answer = page.request.post("/v1/completions", data=json.dumps(body), headers={"Content-Type": "application/json"})
    choice: dict[str, Any] = answer.json()["choices"][0]
    return choice


def test_it_samples_what_the_api_samples(page: Any):
    page.goto("/")
    page.select_option("select", "transformer")
    page.fill("#prompt", PROMPT)
    page.fill(".seed", "3")
    page.keyboard.press("Control+Enter")
    finished(page)
    choice = complete(page, model="transformer", prompt=PROMPT, seed=3, max_tokens=120)
    shown = "".join(tokens(page)).replace("⏎", "").removesuffix("<eos>")
    assert shown == PROMPT + choice["text"]


def test_the_die_under_the_pointer_is_the_apis_and_sums_to_one(page: Any):
    page.goto(f"/{SEEDED}")
    finished(page)
    choice = complete(page, model="transformer", prompt=PROMPT, seed=3, max_tokens=40, logprobs=10, echo=True)
    for place in (1, 5, len(tokens(page)) - 1):
        page.hover(f'.text [data-place="{place}"]')
        bars = page.eval_on_selector_all(".die-card .face", "all => all.map(each => Number(each.dataset.probability))")
        assert sum(bars) == pytest.approx(1, abs=1e-6)
        expected = sorted(exp(each) for each in choice["logprobs"]["top_logprobs"][place].values())
        assert bars[:-1] == pytest.approx(expected[::-1], rel=1e-9)


def test_a_forced_token_makes_a_branch_and_its_link_gives_it_again(page: Any):
    page.goto(f"/{SEEDED}")
    finished(page)
    before = tokens(page)
    page.click('.text [data-place="8"]')
    page.wait_for_selector("button.face")
    bars = page.eval_on_selector_all(".die-card .face", "all => all.map(each => Number(each.dataset.probability))")
    assert sum(bars) == pytest.approx(1, abs=1e-6)
    face = page.locator("button.face:not(.drawn)").first
    forced = int(face.get_attribute("data-id"))
    face.click()
    page.wait_for_selector(".branch")
    finished(page)
    after = tokens(page)
    assert after[:8] == before[:8] and after[8] != before[8]
    assert f"path=8%3A{forced}" in page.url

    # The branch is what the API makes of the ids up to and with the forced token.
    ids = complete(
        page,
        model="transformer",
        prompt=PROMPT,
        seed=3,
        max_tokens=40,
        temperature=0.8,
        echo=True,
        return_token_ids=True,
    )
    eos = page.request.get("/tokenizer_info?model=transformer").json()["eos_token_id"]
    prefix = [eos, *(ids["prompt_token_ids"] + ids["token_ids"])[:8], forced]
    choice = complete(page, model="transformer", prompt=prefix, seed=3, max_tokens=40, temperature=0.8)
    assert "".join(after[9:]).replace("⏎", "").removesuffix("<eos>") == choice["text"]

    # Both are kept.
    page.click(".branch >> nth=0")
    assert tokens(page) == before
    page.click(".branch >> nth=1")
    link = page.url
    levels = page.eval_on_selector_all(".text .token", "all => all.map(each => each.getAttribute('style'))")

    again = page.context.new_page()
    again.goto(link)
    again.wait_for_selector(".branch[aria-current=true] >> nth=0")
    until(again, "document.querySelectorAll('.branch').length === 2")
    finished(again)
    assert tokens(again) == after
    assert again.eval_on_selector_all(".text .token", "all => all.map(each => each.getAttribute('style'))") == levels
    assert again.url == link


def test_a_link_to_other_weights_warns(page: Any):
    page.goto(f"/{SEEDED}&hash=0123456789abcdef")
    page.wait_for_selector(".notice:not(.hidden)")
    assert "0123456789abcdef" in page.text_content(".notice")


def test_it_stops_when_told(page: Any):
    page.goto("/#/playground?model=ngram&prompt=On&seed=1&max_tokens=2000&stop=nothing")
    page.wait_for_selector('.text [data-place="3"]')
    page.keyboard.press("Escape")
    finished(page)
    assert page.text_content(".status").count("·") >= 1
    assert page.request.get("/health").json()["decoding"] == 0


def test_tokens_are_reached_by_keys(page: Any):
    page.goto(f"/{SEEDED}")
    finished(page)
    page.focus('.text [data-place="0"]')
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.place") == "3"
    page.keyboard.press("Enter")
    page.wait_for_selector("button.face:focus")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.place") == "3"


def test_nothing_moves_while_tokens_come(page: Any):
    page.goto("/")
    page.select_option("select", "ngram")
    page.evaluate(
        """() => {
            window.shifts = 0;
            const add = (each) => { if (!each.hadRecentInput) window.shifts += each.value; };
            new PerformanceObserver((list) => list.getEntries().forEach(add)).observe({ type: 'layout-shift' });
        }"""
    )
    page.keyboard.press("Control+Enter")
    finished(page)
    assert page.evaluate("window.shifts") < 0.02


def test_curl_and_python_ask_for_the_same(page: Any):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"/{SEEDED}&temperature=0.5")
    finished(page)
    page.click("button:has-text('curl')")
    page.wait_for_selector(".toast.shown")
    said = page.evaluate("navigator.clipboard.readText()")
    body = json.loads(said[said.index("-d '") + 4 : said.rindex("'")])
    choice = complete(page, **body)
    assert "".join(tokens(page)).replace("⏎", "").removesuffix("<eos>") == PROMPT + choice["text"]
    page.click("button:has-text('Python')")
    until(page, "navigator.clipboard.readText().then(text => text.startsWith('from openai'))")
    program = page.evaluate("navigator.clipboard.readText()")
    compile(program, "copied", "exec")
    assert "seed=3" in program and '"repetition_penalty": 1' in program
