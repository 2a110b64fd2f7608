"""Gradients against depth and time: beside gradients of parameters, which torch keeps by itself, and worked by hand."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from chainrule import registry
from chainrule.analysis.doctor.depth import (
    Gradients,
    _describe_depth,
    _describe_reach,
    draw,
    draw_gradients,
    look_at_gradients,
    measure,
)  # fmt: skip
from chainrule.analysis.doctor.layers import find_layers
from chainrule.analysis.doctor.subject import load_subject
from chainrule.plotting import write_plots

VOCABULARY, TIME = 40, 24
ARCHITECTURES = ("elman", "ugrnn", "gru", "lstm", "mlp", "bow", "attention", "transformer")


def build(architecture: str, **changes):
    module = registry.find("chainrule.models", architecture, "model")
    config = module.SIZES["gpt2-tiny" if architecture == "transformer" else "tiny"]
    torch.manual_seed(0)
    return module.Model(replace(config, **changes), VOCABULARY, VOCABULARY - 1).eval()


def untied(architecture: str):
    return build(architecture, **({"tied": False} if architecture in ("transformer", *ARCHITECTURES[:4]) else {}))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_gradient_at_a_word_is_that_of_its_vector_where_each_word_occurs_once(architecture):
    model = untied(architecture)
    tokens = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(2))[: TIME + 1][None]
    found = measure(model, tokens)
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    hidden, _ = model.read(inputs, model.start(1) if model.carries_state else None)
    logits = model.output(hidden)
    (whole,) = torch.autograd.grad(F.cross_entropy(logits[0], targets[0]), [model.embedding.weight], retain_graph=True)
    used = torch.cat([inputs[0], torch.tensor([VOCABULARY])]) if architecture == "mlp" else inputs[0]
    if architecture != "mlp":  # whose missing first words share one vector
        assert found.layers["embedding"] == pytest.approx(float(whole[used].norm()), rel=1e-4)
    (last,) = torch.autograd.grad(F.cross_entropy(logits[0, -1:], targets[0, -1:]), [model.embedding.weight])
    expected = last[inputs[0].flip(0)].norm(dim=1)
    np.testing.assert_allclose(found.distances, expected.numpy(), rtol=1e-4, atol=1e-8)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_gradient_at_a_layer_is_that_of_its_bias_where_there_is_one_position():
    model = build("mlp")
    tokens = torch.tensor([[3, 5]])
    found = measure(model, tokens)
    F.cross_entropy(model.output(model.read(tokens[:, :1], None)[0])[0], tokens[0, 1:]).backward()
    assert list(found.layers) == ["embedding", "hidden"]
    assert found.layers["hidden"] == pytest.approx(float(model.hidden.bias.grad.norm()), rel=1e-5)


def test_in_a_linear_recurrence_the_gradient_falls_by_its_factor_at_every_step():
    """h_t = relu(h_{t-1} / 2 + x_t + 1) with small x is never cut off, so that distance k has (1/2)^k of the first."""
    model = build("elman", nonlinearity="relu", num_layers=1, tied=False)
    cell = model.recurrent.cells[0]
    model.embedding.weight.data *= 0.01
    cell.input_weight.data = torch.eye(32)
    cell.recurrent_weight.data = torch.eye(32) / 2
    cell.bias.data[:] = 1.0
    found = measure(model, torch.arange(TIME + 1)[None])
    np.testing.assert_allclose(found.distances / found.distances[0], 0.5 ** np.arange(TIME), rtol=1e-4)
    assert found.reach == 6  # 1/64 is above a hundredth, 1/128 is not
    (verdict,) = _describe_reach(found, model)
    assert (verdict.name, verdict.severity) == ("gradients vanish in time", "note")
    assert "is 6 tokens back" in verdict.found


def test_a_recurrence_that_keeps_its_state_reaches_all_the_way():
    model = build("elman", nonlinearity="relu", num_layers=1, tied=False)
    cell = model.recurrent.cells[0]
    model.embedding.weight.data *= 0.01
    cell.input_weight.data, cell.recurrent_weight.data = torch.eye(32), torch.eye(32)
    cell.bias.data[:] = 1.0
    (verdict,) = _describe_reach(measure(model, torch.arange(TIME + 1)[None]), model)
    assert (verdict.severity, "23 tokens back, the farthest" in verdict.found) == ("good", True)


def test_a_model_of_fixed_memory_has_no_reach_to_judge():
    model = build("mlp")
    found = measure(model, torch.arange(TIME + 1)[None])
    assert (found.distances[3:] == 0).all()
    assert found.distances[:3].min() > 0
    assert _describe_reach(found, model) == []


@pytest.mark.parametrize(
    ("norms", "name"),
    [
        ([0.009, 0.5, 1.0], "gradients vanish with depth"),
        ([0.011, 0.5, 1.0], "gradients by depth"),
        ([101.0, 0.5, 1.0], "gradients grow with depth"),
        ([99.0, 0.5, 1.0], "gradients by depth"),
    ],
)
def test_layers_are_uneven_from_a_hundred_times_on(norms, name):
    layers = dict(zip(("embedding", "blocks.0", "blocks.1"), norms, strict=True))
    (found,) = _describe_depth(Gradients(layers, np.ones(2)))
    assert found.name == name
    assert found.found == f"the norm of the loss's gradient is 1 at blocks.1 and {norms[0]:.2g} at embedding"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_layers_are_found_in_every_architecture(architecture):
    names = list(find_layers(build(architecture)))
    assert names[0] == "embedding"
    assert len(names) >= 2
    assert "unembedding" not in names


def test_the_picture_is_to_scale_and_the_same_every_time(tmp_path):
    pytest.importorskip("matplotlib")
    gradients = Gradients({"embedding": 0.1, "recurrent.cells.0": 1.0, "recurrent.cells.1": 10.0}, 0.5 ** np.arange(12))
    for name in ("a", "b"):
        assert write_plots(tmp_path / name, lambda: {"depth": draw_gradients(gradients)}) == []
    data = (tmp_path / "a" / "depth.svg").read_bytes()
    assert data == (tmp_path / "b" / "depth.svg").read_bytes()
    text = data.decode()
    for label in ("embedding", "cell 0", "cell 1", "norm of the loss", "tokens back"):
        assert label in text

    def points(name: str) -> list[tuple[float, float]]:
        part = ElementTree.fromstring(text).find(f".//{{http://www.w3.org/2000/svg}}g[@id='{name}']/")
        return [(float(x), float(y)) for x, y in re.findall(r"[ML] (\S+) (\S+)", part.get("d", ""))]

    (x0, y0), (x1, y1), (x2, y2) = points("at its output")
    assert x2 - x1 == pytest.approx(x1 - x0)  # each ten times the one below it
    assert y0 > y1 > y2  # from the bottom up
    heights = np.array([y for _, y in points("at a word")])
    np.testing.assert_allclose(np.diff(heights), np.diff(heights)[0], rtol=1e-4)


def test_a_run_gets_its_picture_and_a_folder_that_cannot_be_written_to_a_note(healthy, tmp_path):
    (healthy.path / "report" / "depth.svg").unlink(missing_ok=True)
    found = look_at_gradients(load_subject(healthy.path))
    assert [each.name for each in found] == ["gradients by depth", "picture"]
    assert (healthy.path / "report" / "depth.svg").is_file()
    (tmp_path / "file").write_text("")
    (note,) = draw(Gradients({"embedding": 1.0}, np.ones(2)), tmp_path / "file" / "depth.svg")
    assert "could not be written" in note.found
