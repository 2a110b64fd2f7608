"""/graphs: every node with the value and the gradient that the tape has, some of them checked by hand."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

import chainrule
from chainrule.analysis.explain.computation import GRAPHS, computation
from chainrule.serving.app import make_app
from chainrule.serving.graphs import array_to_json
from tests.serving.toys import toy_service


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder: Path = tmp_path_factory.mktemp("runs")
    (folder / "cows.txt").write_text("the cow eats hay\n" * 30)
    run = chainrule.train(folder / "cows.txt", model="ngram", order=2, path=folder / "ngram")
    with TestClient(make_app(toy_service([run.path])), base_url="http://localhost") as found:
        yield found


@pytest.mark.parametrize("model", GRAPHS)
def test_nodes_are_those_of_the_tape(client, model):
    nodes = client.get(f"/graphs/{model}", params={"length": 3}).json()["nodes"]
    theirs = computation(model, 3)
    assert len(nodes) == len(theirs)
    for ours, node in zip(nodes, theirs, strict=True):
        assert (ours["number"], ours["kind"], ours["name"]) == (node.number, node.kind, node.name)
        assert ours["inputs"] == list(node.inputs)
        assert ours["value"]["norm"] == pytest.approx(np.linalg.norm(node.value), rel=1e-4, abs=1e-12)
        if ours["value"]["numbers"] is not None:
            assert ours["value"]["numbers"] == pytest.approx(node.value.ravel().tolist(), rel=1e-4)
        if node.gradient is not None:
            assert ours["gradient"]["mean"] == pytest.approx(node.gradient.mean(), rel=1e-4, abs=1e-8)


def test_gradients_are_slopes_of_the_loss(client):
    """Elman's last node is the loss: W_y's gradient is the difference of (softmax - one-hot) ⊗ state, word by word."""
    nodes = client.get("/graphs/elman", params={"length": 2}).json()["nodes"]
    assert nodes[-1]["gradient"]["numbers"] == [1.0]
    output = next(node for node in nodes if node["name"] == "W_y")
    by_number = {node["number"]: node for node in nodes}

    def array(node, what="value"):
        return np.array(node[what]["numbers"]).reshape(node[what]["shape"])

    expected = np.zeros((20, 8))
    for linear in (node for node in nodes if node["name"] == "Linear"):
        state = array(by_number[linear["inputs"][0]])
        logits = array(linear)
        loss = next(
            node for node in nodes if node["name"] == "SoftmaxCrossEntropy" and linear["number"] in node["inputs"]
        )
        wanted = int(array(by_number[loss["inputs"][1]]).item())
        p = np.exp(logits[0]) / np.exp(logits[0]).sum()
        p[wanted] -= 1
        expected += np.outer(p, state[0])
    assert array(output, "gradient") == pytest.approx(expected, abs=1e-4)


def test_boxes_do_not_overlap_and_readers_stand_above(client):
    found = client.get("/graphs/attention", params={"length": 4}).json()
    width, height = found["box"]
    nodes = found["nodes"]
    for node in nodes:
        assert all(nodes[each]["y"] > node["y"] for each in node["inputs"])
    for one, other in itertools.combinations(nodes, 2):
        assert abs(one["x"] - other["x"]) >= width or abs(one["y"] - other["y"]) >= height


def test_the_same_graph_every_time(client):
    assert client.get("/graphs/lstm").content == client.get("/graphs/lstm").content


def test_an_array_is_told_whole_or_summed_up():
    small = array_to_json(np.array([[3.0, -4.0]]))
    assert small == {"shape": [1, 2], "min": -4.0, "max": 3.0, "mean": -0.5, "norm": 5.0, "numbers": [3.0, -4.0]}
    assert array_to_json(np.ones((20, 30)))["numbers"] is None
    assert array_to_json(np.array([np.inf]))["max"] is None
    assert array_to_json(np.zeros(0))["min"] is None


def test_the_list_and_what_is_wrong(client):
    assert client.get("/graphs").json()["data"] == list(GRAPHS)
    assert client.get("/graphs/ngram").status_code == 404
    for length in ("0", "9", "x", "1e9"):
        assert client.get("/graphs/elman", params={"length": length}).status_code == 400
