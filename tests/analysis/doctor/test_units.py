"""Units that were killed or jammed by hand are counted, in every kind of layer."""

from dataclasses import replace

import pytest
import torch

from chainrule import registry
from chainrule.analysis.doctor.subject import load_subject
from chainrule.analysis.doctor.units import UnitLayer, _describe, idle_units, look_at_units, read_layers

VOCABULARY = 11


def build(architecture: str, **changes):
    module = registry.find("chainrule.models", architecture, "model")
    torch.manual_seed(0)
    return module.Model(replace(module.SIZES["tiny"], **changes), VOCABULARY, VOCABULARY - 1).eval()


def tokens() -> torch.Tensor:
    return torch.randint(VOCABULARY, (4, 16), generator=torch.Generator().manual_seed(1))


def test_a_rectified_unit_is_dead_if_it_is_never_above_zero():
    values = torch.tensor([[0.0, -1.0, -1.0], [0.0, -2.0, 1e-6]])
    assert idle_units("relu", values).tolist() == [True, True, False]


def test_a_squashing_unit_is_stuck_if_it_is_at_a_bound_nearly_always():
    """At 96 of 100 positions, at 94, always between, and at both bounds by turns."""
    for nonlinearity, high, low in (("tanh", 0.995, -0.995), ("logistic", 0.995, 0.005)):
        values = torch.full((100, 4), 0.3)
        values[:96, 0], values[:94, 1] = high, low
        values[::2, 3], values[1::2, 3] = high, low
        assert idle_units(nonlinearity, values).tolist() == [True, False, False, True]


@pytest.mark.parametrize("activation", ["relu", "relu-squared", "gelu", "swiglu"])
def test_dead_units_of_feedforward_layers_are_counted(activation):
    model = build("transformer", activation=activation, bias=True)
    inner = model.blocks[1].feedforward.input
    inner.weight.data[:20] = 0.0
    inner.bias.data[:20] = -1.0
    inner.weight.data[20:21] = 0.0
    inner.bias.data[20] = 1.0
    first, second = read_layers(model, tokens())
    assert (first.name, second.name) == ("blocks.0.feedforward", "blocks.1.feedforward")
    assert first.units == second.units == model.config.width_of_feedforward
    assert (first.idle, second.idle) == (0, 20)


@pytest.mark.parametrize(("architecture", "activation"), [("mlp", None), ("bow", None), ("attention", "gelu")])
def test_idle_units_of_a_single_hidden_layer_are_counted(architecture, activation):
    model = build(architecture)
    model.hidden.weight.data[:7] = 0.0
    model.hidden.bias.data[:7] = -5.0
    (layer,) = read_layers(model, tokens())
    assert (layer.name, layer.nonlinearity) == ("hidden", "relu" if activation else "tanh")
    assert (layer.units, layer.idle) == (64, 7)


def test_gates_that_are_jammed_are_counted_one_gate_at_a_time():
    model = build("lstm")
    model.recurrent.cells[1].bias.data[32 : 32 + 9] = 50.0  # the forget gate of nine units is open for good
    found = {layer.name: layer.idle for layer in read_layers(model, tokens())}
    assert found == {
        f"{gate} of recurrent.cells.{cell}": 9 * ((gate, cell) == ("f", 1)) for cell in (0, 1) for gate in "ifog"
    }


@pytest.mark.parametrize(("nonlinearity", "bias"), [("relu", -50.0), ("tanh", 50.0), ("logistic", -50.0)])
def test_elman_units_are_judged_by_their_own_nonlinearity(nonlinearity, bias):
    model = build("elman", nonlinearity=nonlinearity, num_layers=1)
    model.recurrent.cells[0].bias.data[:5] = bias
    (layer,) = read_layers(model, tokens())
    assert (layer.nonlinearity, layer.idle) == (nonlinearity, 5)


@pytest.mark.parametrize(
    ("idle", "expected"),
    [
        (9, ("units", "good")),
        (10, ("dead units", "note")),
        (49, ("dead units", "note")),
        (50, ("dead units", "problem")),
    ],
)
def test_a_tenth_is_noted_and_half_is_a_problem(idle, expected):
    (found,) = _describe([UnitLayer("a", "relu", 100, idle), UnitLayer("b", "tanh", 100, 0)], 1000)
    assert (found.name, found.severity) == expected
    assert found.name == "units" or f"{idle}% of 100 in a are never above zero in 1,000 tokens" in found.found


def test_dead_and_saturated_units_are_told_apart():
    found = _describe([UnitLayer("a", "relu", 100, 60), UnitLayer("b", "tanh", 100, 20)], 1000)
    assert [each.name for each in found] == ["dead units", "saturated units"]


def test_a_run_with_units_killed_is_found_out(train):
    from tests.analysis.doctor.conftest import chain_text

    run = train(chain_text(100, 0), model="transformer", steps=5, activation="relu", bias=True)
    model = run.model
    for block in model.blocks:
        block.feedforward.input.weight.data[:100] = 0.0
        block.feedforward.input.bias.data[:100] = -1.0
    model.save(run.path / "model.safetensors")
    (found,) = look_at_units(load_subject(run.path))
    assert (found.name, found.severity) == ("dead units", "problem")
    assert "78% of 128 in blocks." in found.found  # 100 of 128, and none of the others
    assert "in 4,096 tokens" in found.found or "tokens" in found.found
