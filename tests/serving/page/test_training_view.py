"""Trainings in a browser: the slider shows what the journal says, and a training under way is followed."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.serving.page.waiting import until


def events_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture
def shown(page: Any) -> Any:
    page.goto("/#/training?runs=lstm,transformer,ngram&run=lstm")
    until(page, "document.querySelectorAll('.looks .card').length > 0")
    return page


def test_the_slider_shows_every_look_of_the_journal(shown: Any, toys: list[Path]):
    looks = [each for each in events_of(toys[1]) if each["event"] == "probe"]
    assert shown.get_attribute(".checkpoints input", "max") == str(len(looks) - 1)
    for look in reversed(looks[-4:]):
        assert f"step {look['step']} " in shown.inner_text(".checkpoints output")
        for number, context in enumerate(look["contexts"]):
            bars = shown.eval_on_selector_all(
                f".looks .card:nth-child({number + 1}) .face",
                "all => all.map(each => Number(each.dataset.probability))",
            )
            assert bars[: len(context["top"])] == [value for _, value in context["top"]]
            assert sum(bars) == pytest.approx(1, abs=1e-6)
            drawn = shown.get_attribute(f".looks .card:nth-child({number + 1}) .drawn", "data-probability")
            assert float(drawn) == context["probability"]
        shown.keyboard.press("ArrowLeft")


def test_curves_have_the_points_of_the_journal(shown: Any, toys: list[Path]):
    steps = [each for each in events_of(toys[1]) if each["event"] == "step"]
    lines = shown.eval_on_selector_all(
        "polyline", "all => all.map(each => [each.textContent, each.getAttribute('points').split(' ').length])"
    )
    assert ["lstm, training", len(steps)] in lines
    assert ["ngram, validation", 2] in lines  # a model that counts is a level


def test_a_run_without_looks_says_so(page: Any):
    old = [{"event": "step", "step": 1, "loss": 1.0, "bits_per_byte": 1.5, "seconds": 1, "tokens": 9, "progress": 1}]
    row = {
        "name": "lstm",
        "status": "done",
        "events": 1,
        "learns": True,
        "probes": 0,
        "validation_bits_per_byte": 1.5,
    }
    page.route("**/trainings", lambda route: route.fulfill(json={"data": [row]}))
    answer = {"name": "lstm", "status": "done", "begin": 0, "events": 1, "data": old}
    page.route("**/trainings/**", lambda route: route.fulfill(json=answer))
    page.goto("/#/training")
    until(page, "document.querySelector('.nothing') !== null")
    assert "by an older version" in page.inner_text("main")
    assert "chainrule train" in page.inner_text(".nothing code")


def test_a_training_under_way_is_followed(page: Any, toys: list[Path]):
    folder = toys[0].parent / ".new.unfinished"
    folder.mkdir()
    try:
        journal = folder / "metrics.jsonl"

        def write(count: int) -> None:
            with open(journal, "a") as file:
                for step in range(count, count + 5):
                    loss = 2 + math.exp(-step / 5)
                    record = {"event": "step", "step": step, "loss": loss, "bits_per_byte": loss, "seconds": step}
                    file.write(json.dumps(record | {"tokens": step, "progress": step / 20}) + "\n")

        write(1)
        page.goto("/#/training?runs=new&run=new")
        points = "document.querySelector('polyline').getAttribute('points').split(' ').length"
        until(page, f"document.querySelector('polyline') && {points} === 5")
        write(6)
        until(page, f"{points} === 10", 30)
    finally:
        journal.unlink()
        folder.rmdir()
