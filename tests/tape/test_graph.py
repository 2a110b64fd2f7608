"""Computation graphs: as data, as text, as a picture."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from chainrule.tape.graph import BOX, graph, to_dot, to_svg
from chainrule.tape.losses import SoftmaxCrossEntropy
from chainrule.tape.modules import Linear, Tanh
from chainrule.tape.tape import Parameter, Tape
from chainrule.tape.unrolled import UNROLLED, VOCABULARY

SVG = "{http://www.w3.org/2000/svg}"


def small():
    tape, weight = Tape(), Parameter(np.ones((3, 2)))
    hidden = Tanh()(Linear()(tape.value(np.ones((1, 2))), weight))
    end = SoftmaxCrossEntropy()(hidden, tape.value(np.array([1])))
    tape.backward(end, keep=True)
    return graph(tape, {"W": weight}), weight


def test_the_graph_is_what_was_applied_with_values_and_gradients():
    nodes, weight = small()
    assert [(node.kind, node.name, node.inputs) for node in nodes] == [
        ("input", "input", ()),
        ("parameter", "W", ()),
        ("module", "Linear", (0, 1)),
        ("module", "Tanh", (2,)),
        ("input", "input", ()),
        ("module", "SoftmaxCrossEntropy", (3, 4)),
    ]
    np.testing.assert_array_equal(nodes[1].gradient, weight.gradient)
    np.testing.assert_allclose(nodes[3].value, np.tanh(2.0) * np.ones((1, 3)))
    assert nodes[5].as_dict()["shape"] == []
    assert nodes[1].as_dict()["gradient_norm"] == pytest.approx(float(np.linalg.norm(weight.gradient)))


def test_graphviz_text_has_every_node_and_edge():
    nodes, _ = small()
    text = to_dot(nodes)
    assert text.count("->") == sum(len(node.inputs) for node in nodes) == 5
    assert text.count("label=") == len(nodes)


@pytest.mark.parametrize("name", UNROLLED)
def test_a_picture_has_a_box_for_every_node_none_on_another_and_readers_above_what_they_read(name):
    tape = Tape()
    end, parameters = UNROLLED[name](tape, np.arange(6) % VOCABULARY)
    tape.backward(end, keep=True)
    nodes = graph(tape, parameters)
    picture = ET.fromstring(to_svg(nodes))
    places = [tuple(map(float, each.get("transform", "")[10:-1].split())) for each in picture.iter(f"{SVG}g")]
    assert len(places) == len(nodes)
    assert len(list(picture.iter(f"{SVG}path"))) == sum(len(node.inputs) for node in nodes)
    for node in nodes:
        assert all(places[node.number][1] < places[each][1] for each in node.inputs)
    rows: dict[float, list[float]] = {}
    for x, y in places:
        rows.setdefault(y, []).append(x)
    width, height = (float(picture.get(name, "0")) for name in ("width", "height"))
    for y, row in rows.items():
        assert y + BOX[1] <= height
        assert max(row) + BOX[0] <= width
        assert all(right - left >= BOX[0] for left, right in zip(sorted(row), sorted(row)[1:], strict=False))
