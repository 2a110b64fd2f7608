"""`chainrule graph`: pictures, text, counts, and what is refused."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from chainrule.tape.models import MODELS

Result = tuple[int, str, str]


@pytest.fixture
def graph(chainrule: Callable[..., Result]) -> Callable[..., Result]:
    return lambda *arguments: chainrule("graph", *arguments)


def test_an_elman_network_is_drawn_and_counted(graph):
    code, out, err = graph("--model", "elman", "--length", "8", "--growth", "growth.png")
    assert code == 0, err
    assert "elman on 8 words: 47 modules" in out + err
    assert "attention, modules by length: 1: " in out + err
    assert ET.parse("elman-8.svg").getroot().tag.endswith("svg")
    assert Path("growth.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("model", [*MODELS, "attention"])
def test_every_model_of_the_tape_has_a_graph(graph, model):
    code, out, err = graph("--model", model, "--length", "3", "-o", "graph.json", "--json")
    assert code == 0, err
    found = json.loads(out)
    nodes = json.loads(Path("graph.json").read_text())
    assert found["nodes"] == sum(node["kind"] == "module" for node in nodes) > 2
    assert all(node["gradient_norm"] is not None for node in nodes if node["kind"] == "parameter")


def test_graphviz(graph):
    assert graph("--length", "2", "-o", "graph.dot")[0] == 0
    assert Path("graph.dot").read_text().startswith("digraph {")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--model", "elmann"), "there is no graph of 'elmann'; did you mean 'elman'?"),
        (("--length", "0"), "--length must be from 1 to 64 words, got 0"),
        (("-o", "graph.pdf"), "--output must end in .svg, .dot or .json, got 'graph.pdf'"),
        (("-o", "nowhere/graph.svg"), "cannot write 'nowhere/graph.svg'"),
        (("--growth", "growth.pdf"), "--growth must end in .png or .svg, got 'growth.pdf'"),
        (("--growth", "nowhere/growth.png"), "cannot write 'nowhere/growth.png'"),
    ],
)
def test_mistakes_get_a_sentence(graph, arguments, sentence):
    code, _, err = graph(*arguments)
    assert code == 2
    assert sentence in err
    assert "Traceback" not in err


def test_files_are_not_replaced_unasked(graph):
    Path("elman-8.svg").write_text("mine")
    code, _, err = graph()
    assert (code, Path("elman-8.svg").read_text()) == (2, "mine")
    assert "exists already" in err
    assert graph("--overwrite")[0] == 0
    assert Path("elman-8.svg").read_text() != "mine"
