"""The graph in a browser: every node with its numbers, reached by the keyboard."""

from typing import Any

import pytest

from tests.serving.page.waiting import until


@pytest.fixture
def shown(page: Any) -> Any:
    page.goto("/#/graph?model=elman&length=2")
    until(page, "document.querySelectorAll('.node').length > 10")
    return page


def test_every_node_is_drawn_and_tells_its_value_and_gradient(shown: Any):
    nodes = shown.request.get("/graphs/elman?length=2").json()["nodes"]
    assert shown.locator(".node").count() == len(nodes)
    assert shown.locator(".edge").count() == sum(len(node["inputs"]) for node in nodes)
    parameter = next(node for node in nodes if node["name"] == "b")
    shown.dispatch_event(f'.node[data-number="{parameter["number"]}"]', "click")
    assert shown.inner_text(".graph-panel h2") == "b"
    cells = shown.eval_on_selector_all(".graph-panel .numbers td", "all => all.map(each => each.textContent)")
    numbers = [float(each.replace("−", "-")) for each in cells]
    assert numbers == pytest.approx(parameter["value"]["numbers"] + parameter["gradient"]["numbers"], abs=6e-4)


def test_arrow_keys_follow_the_edges(shown: Any):
    nodes = shown.request.get("/graphs/elman?length=2").json()["nodes"]
    last = nodes[-1]
    shown.keyboard.press("ArrowDown")
    assert shown.inner_text(".graph-panel p").startswith(f"module {last['inputs'][0]},")
    assert shown.locator(":focus").get_attribute("data-number") == str(last["inputs"][0])
    shown.keyboard.press("ArrowUp")
    assert shown.locator(":focus").get_attribute("data-number") == str(last["number"])


def test_it_comes_closer_and_another_model_is_drawn(shown: Any):
    def width() -> float:
        return float(shown.get_attribute(".graph", "viewBox").split()[2])

    before = width()
    shown.keyboard.press("+")
    assert width() == pytest.approx(before / 1.4)
    shown.keyboard.press("0")
    assert width() == pytest.approx(before)
    shown.select_option("select", "attention")
    expected = len(shown.request.get("/graphs/attention?length=2").json()["nodes"])
    until(shown, f"document.querySelectorAll('.node').length === {expected}")
