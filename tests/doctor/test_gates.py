"""Gates put together again by each cell's equation give the cell's own outputs."""

import pytest
import torch

from chainrule.doctor.gates import gates
from chainrule.layers.cells import CELLS

TIME, BATCH, INPUTS, WIDTH = 6, 3, 4, 5


@pytest.mark.parametrize("name", CELLS)
@torch.no_grad()
def test_gates_make_the_outputs(name):
    torch.manual_seed(0)
    cell = CELLS[name](INPUTS, WIDTH)
    for parameter in cell.parameters():
        parameter.normal_()
    inputs = torch.randn(TIME, BATCH, INPUTS)
    before = tuple(torch.randn(BATCH, WIDTH) for _ in range(cell.num_parts))
    outputs, _ = cell(inputs, before)
    found = gates(cell, inputs, before, outputs)
    hidden, memory = before[0], before[-1]
    for t in range(TIME):
        value = {gate: values[t] for gate, (_, values) in found.items()}
        if name == "lstm":
            memory = value["f"] * memory + value["i"] * value["g"]
            hidden = value["o"] * memory.tanh()
        elif name == "gru":
            hidden = (1 - value["z"]) * value["n"] + value["z"] * hidden
        elif name == "ugrnn":
            hidden = value["G"] * hidden + (1 - value["G"]) * value["R"]
        else:
            hidden = value["h"]
        torch.testing.assert_close(outputs[t], hidden, rtol=1e-5, atol=1e-6)
    for nonlinearity, values in found.values():
        assert values.abs().max() <= 1
        assert nonlinearity != "logistic" or values.min() >= 0


@torch.no_grad()
def test_the_reset_gate_of_a_gru_is_the_textbook_one():
    """It does not come out of h = (1 - z) n + z h' alone, so it is computed here from the weights."""
    torch.manual_seed(0)
    cell = CELLS["gru"](INPUTS, WIDTH)
    inputs, before = torch.randn(TIME, BATCH, INPUTS), (torch.randn(BATCH, WIDTH),)
    outputs, _ = cell(inputs, before)
    past = torch.stack([before[0], *outputs[:-1]])
    weight_x, weight_h = cell.input_weight[:WIDTH], cell.recurrent_weight[:WIDTH]
    expected = torch.sigmoid(inputs @ weight_x.t() + past @ weight_h.t() + cell.bias[:WIDTH])
    torch.testing.assert_close(gates(cell, inputs, before, outputs)["r"][1], expected)
