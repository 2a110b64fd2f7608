"""The game in a browser: one option is the text's own, a guess is counted once, and what is revealed is true."""

import json
from typing import Any

import pytest

from tests.serving.page.waiting import until

START = "#/game?seed=7&characters=60&models=ngram,lstm,transformer"


@pytest.fixture
def dealt(page: Any) -> Any:
    page.goto(f"/{START}")
    until(page, "document.querySelectorAll('.option').length === 4", 60)
    return page


def texts(page: Any) -> list[str]:
    return page.eval_on_selector_all(".option .passage", "all => all.map(each => each.firstChild.textContent)")


def seed(page: Any) -> str:
    return page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('seed')")


def test_one_option_is_real_and_all_are_as_long(dealt: Any):
    answer = dealt.request.get(f"/passages?model=ngram&seed={seed(dealt)}&characters=60").json()
    found = texts(dealt)
    real = [text for text in found if answer["continuation"].strip().startswith(text.strip())]
    assert len(real) == 1
    assert max(map(len, found)) - min(map(len, found)) <= 4  # spaces at the ends are not shown


@pytest.mark.parametrize("is_right", [True, False])
def test_a_guess_is_counted_and_the_source_told(dealt: Any, is_right: bool):
    answer = dealt.request.get(f"/passages?model=ngram&seed={seed(dealt)}&characters=60").json()
    real = next(i for i, text in enumerate(texts(dealt)) if answer["continuation"].strip().startswith(text.strip()))
    guess = real if is_right else (real + 1) % 4
    dealt.keyboard.press("abcd"[guess])
    dealt.keyboard.press("abcd"[real])  # too late
    until(dealt, "document.querySelector('.weighed') !== null", 60)
    assert dealt.get_attribute(".reveal .mono", "title") == answer["path"]
    assert f"is in cows.txt:{answer['line']}, kept aside" in dealt.inner_text(".reveal")
    kept = json.loads(dealt.evaluate("localStorage.getItem('chainrule.game')"))
    assert kept == {"rounds": 1, "right": int(is_right), "streak": int(is_right), "best": int(is_right)}
    classes = dealt.eval_on_selector_all(".option", "all => all.map(each => each.className)")
    assert [i for i, each in enumerate(classes) if "real" in each] == [real]


def test_the_bits_that_are_revealed_are_those_of_the_continuations(dealt: Any):
    answer = dealt.request.get(f"/passages?model=ngram&seed={seed(dealt)}&characters=60").json()
    dealt.keyboard.press("a")
    until(dealt, "document.querySelector('.weighed') !== null", 60)
    real = next(i for i, text in enumerate(texts(dealt)) if answer["continuation"].strip().startswith(text.strip()))
    shown = dealt.inner_text(f".weighed tbody tr:nth-child(2) td:nth-child({real + 2})")
    whole = answer["prompt"] + answer["continuation"]
    end = whole.index(texts(dealt)[real], len(answer["prompt"])) + len(texts(dealt)[real])
    body = {"text": whole[:end], "models": ["lstm"]}
    found = dealt.request.post("/compare", data=json.dumps(body), headers={"Content-Type": "application/json"}).json()
    begin = len(answer["prompt"])
    expected = sum(token["bits"] for token in found["models"][0]["tokens"] if token["end"] > begin)
    assert float(shown) == pytest.approx(expected, abs=0.06)


def test_the_same_address_deals_the_same_hand(dealt: Any):
    before = texts(dealt)
    dealt.reload()
    until(dealt, "document.querySelectorAll('.option').length === 4", 60)
    assert texts(dealt) == before
