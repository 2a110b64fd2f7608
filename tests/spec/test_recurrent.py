"""Rows 9 to 11 of what Chainrule promises: recurrent networks."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from chainrule.layers.cells import CELLS, GRU, LSTM, UGRNN, Cell, Elman
from chainrule.layers.recurrent import Recurrent
from chainrule.models import elman, gru, lstm, ugrnn
from chainrule.models.contract import Batch


def hand_model(nonlinearity: str) -> elman.Model:
    """Two words, a and b, and two hidden units; every weight is a small number."""
    settings = elman.Config(width=2, num_layers=1, tied=False, nonlinearity=nonlinearity)
    model = elman.Model(settings, vocabulary_size=2, eos=1)
    numbers = {
        "embedding.weight": [[1, 0], [0, 2]],  # x of a, x of b
        "recurrent.cells.0.input_weight": [[1, -1], [0.5, 0.5]],  # W_ax
        "recurrent.cells.0.recurrent_weight": [[0, 1], [-1, 1]],  # W_ah
        "recurrent.cells.0.bias": [-1, 0.5],  # b_a
        "unembedding": [[2, 0], [0, 4]],  # W_yh
        "output_bias": [0, -1],  # b_y
    }
    model.load_state_dict({name: torch.tensor(value, dtype=torch.float32) for name, value in numbers.items()})
    return model


def test_row_9_an_elman_network_worked_out_by_hand_with_relu():
    """Row 9: every digit can be followed with a pencil.

    a: a_1 = W_ah 0 + W_ax (1, 0) + b_a = (0, 0) + (1, 0.5) + (-1, 0.5) = (0, 1)
       h_1 = relu(a_1) = (0, 1), W_yh h_1 + b_y = (0, 4 - 1) = (0, 3)
    b: W_ah h_1 = (0 + 1, 0 + 1) = (1, 1), W_ax (0, 2) = (-2, 1)
       a_2 = (1, 1) + (-2, 1) + (-1, 0.5) = (-2, 2.5)
       h_2 = (0, 2.5), W_yh h_2 + b_y = (0, 10 - 1) = (0, 9)
    a: W_ah h_2 = (2.5, 2.5), a_3 = (2.5, 2.5) + (1, 0.5) + (-1, 0.5) = (2.5, 3.5)
       h_3 = (2.5, 3.5), W_yh h_3 + b_y = (5, 14 - 1) = (5, 13)
    reading a b a, being asked for b a b: -log softmax(0, 3)[b] - log softmax(0, 9)[a] - log softmax(5, 13)[b]
      = log(1 + e^-3) + log(1 + e^9) + log(1 + e^-8) = 0.048587 + 9.000123 + 0.000335 = 9.049046
    """
    model = hand_model("relu")
    tokens = torch.tensor([[0, 1, 0]])
    logits, state = model.step(tokens, model.start(1))
    assert logits.tolist() == [[[0, 3], [0, 9], [5, 13]]]
    assert state[0][0].tolist() == [[2.5, 3.5]]
    loss = model.loss(Batch(tokens, torch.tensor([[1, 0, 1]])))
    assert loss.total.item() == pytest.approx(9.049046, abs=1e-5)


def test_row_9_an_elman_network_worked_out_by_hand_with_the_logistic_function():
    """Row 9: the same numbers through σ(a) = 1 / (1 + e^-a).

    a: a_1 = (0, 1), h_1 = (1/2, 1/(1 + 0.367879)) = (0.5, 0.731059)
       W_yh h_1 + b_y = (1, 2.924234 - 1) = (1, 1.924234)
    b: W_ah h_1 = (0.731059, -0.5 + 0.731059) = (0.731059, 0.231059)
       a_2 = (0.731059, 0.231059) + (-2, 1) + (-1, 0.5) = (-2.268941, 1.731059)
       h_2 = (1/(1 + 9.669156), 1/(1 + 0.177097)) = (0.093728, 0.849548)
       W_yh h_2 + b_y = (0.187456, 3.398192 - 1) = (0.187456, 2.398192)
    """
    model = hand_model("logistic")
    logits, state = model.step(torch.tensor([[0, 1]]), model.start(1))
    torch.testing.assert_close(logits, torch.tensor([[[1, 1.924234], [0.187456, 2.398192]]]), rtol=0, atol=5e-6)
    torch.testing.assert_close(state[0][0], torch.tensor([[0.093728, 0.849548]]), rtol=0, atol=2e-6)
    first = 1 / (1 + math.exp(1 - 1.924234))  # p(b | a)
    found = logits.softmax(-1)[0, 0, 1].item()
    assert found == pytest.approx(first, abs=1e-6)


@pytest.mark.parametrize("nonlinearity", ["logistic", "tanh", "relu"])
def test_row_9_streaming_equals_all_at_once(nonlinearity):
    """Row 9: one word at a time, in pieces or all together, the logits are the same."""
    torch.manual_seed(0)
    model = elman.Model(replace(elman.SIZES["tiny"], nonlinearity=nonlinearity), 20, 0).double()
    tokens = torch.randint(0, 20, (3, 12))
    whole, after = model.step(tokens, model.start(3))
    for sizes in ([1] * 12, [5, 4, 3]):
        state, pieces = model.start(3), []
        for piece in tokens.split(sizes, 1):
            logits, state = model.step(piece, state)
            pieces.append(logits)
        torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=0, atol=1e-12)
        torch.testing.assert_close(state, after, rtol=0, atol=1e-12)


def random_cell(make: Any) -> Any:
    torch.manual_seed(0)
    cell = make(4, 6).double()
    for parameter in cell.parameters():
        nn.init.normal_(parameter, std=0.5)
    return cell


def copied(theirs: Any, ours: Cell) -> Any:
    theirs = theirs.double()
    values = (ours.input_weight, ours.recurrent_weight, ours.bias, ours.second_bias())
    with torch.no_grad():
        for name, value in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), values, strict=True):
            getattr(theirs, name).copy_(value)
    return theirs


@pytest.mark.parametrize(("make", "theirs"), [(Elman, nn.RNNCell), (GRU, nn.GRUCell), (LSTM, nn.LSTMCell)])
def test_row_10_cells_equal_torchs_where_it_has_them(make, theirs):
    """Row 10: Cho's and Hochreiter's cells (and Elman's), in values and gradients."""
    ours = random_cell(make)
    torchs = copied(theirs(4, 6), ours)
    inputs = torch.randn(5, 3, 4, dtype=torch.float64, requires_grad=True)
    outputs, _ = ours(inputs, ours.start(3))
    state, steps = None, []
    for step in inputs:
        state = torchs(step, state)
        steps.append(state[0] if isinstance(state, tuple) else state)
    expected = torch.stack(steps)
    torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-6)
    weights = [inputs, ours.input_weight, ours.recurrent_weight, ours.bias]
    found = torch.autograd.grad(outputs.square().sum(), weights)
    weights = [inputs, torchs.weight_ih, torchs.weight_hh, torchs.bias_ih]
    torch.testing.assert_close(found, torch.autograd.grad(expected.square().sum(), weights), rtol=0, atol=1e-6)


def test_row_10_the_ugrnn_equals_its_equations():
    """Row 10: R = tanh(W_hR h + W_xR x + b_R), G = σ(W_hG h + W_xG x + b_G), h ← G ⊙ h + (1 - G) ⊙ R."""
    cell = random_cell(UGRNN)
    inputs = torch.randn(5, 3, 4, dtype=torch.float64, requires_grad=True)
    outputs, _ = cell(inputs, cell.start(3))
    (w_hr, w_hg), (w_xr, w_xg) = cell.recurrent_weight.chunk(2), cell.input_weight.chunk(2)
    b_r, b_g = cell.bias.chunk(2)
    h, steps = torch.zeros(3, 6, dtype=torch.float64), []
    for x in inputs:
        r = torch.tanh(h @ w_hr.t() + x @ w_xr.t() + b_r)
        g = torch.sigmoid(h @ w_hg.t() + x @ w_xg.t() + b_g)
        h = g * h + (1 - g) * r
        steps.append(h)
    expected = torch.stack(steps)
    torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-6)
    wanted = [inputs, *cell.parameters()]
    found, right = (torch.autograd.grad(each.square().sum(), wanted) for each in (outputs, expected))
    torch.testing.assert_close(found, right, rtol=0, atol=1e-6)


@pytest.mark.parametrize("module", [ugrnn, gru, lstm])
def test_row_10_tied_embeddings_are_an_option(module):
    """Row 10: with them the output is a softmax over e(w) · h, without them it has weights of its own."""
    torch.manual_seed(0)
    tokens = torch.randint(0, 20, (2, 5))
    for is_tied in (True, False):
        model = module.Model(replace(module.SIZES["tiny"], tied=is_tied), 20, 0)
        hidden, _ = model.read(tokens, None)
        logits, _ = model.step(tokens, model.start(2))
        products = hidden @ model.embedding.weight.t()
        assert torch.allclose(logits.softmax(-1), products.softmax(-1), atol=1e-6) == is_tied


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("name", list(CELLS))
def test_row_11_a_row_alone_equals_the_row_in_a_padded_batch(name, residual, bidirectional):
    """Row 11: deep, residual and in both directions, outputs and last states do not see padding or batch mates."""
    torch.manual_seed(0)
    stack = Recurrent(CELLS[name], 4, 6, 3, residual=residual, bidirectional=bidirectional)
    inputs, lengths = torch.randn(4, 7, 4), torch.tensor([7, 2, 5, 1])
    outputs, after = stack(inputs, lengths=lengths)
    for row, length in enumerate(lengths.tolist()):
        alone, state = stack(inputs[row : row + 1, :length])
        torch.testing.assert_close(outputs[row, :length], alone[0], rtol=0, atol=1e-6)
        for found, expected in zip(after, state, strict=True):
            torch.testing.assert_close([part[row] for part in found], [part[0] for part in expected], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", list(CELLS))
def test_row_11_both_directions_see_both_sides(name):
    """Row 11: the first output of the backward half depends on the last input, that of the forward half does not."""
    torch.manual_seed(0)
    stack = Recurrent(CELLS[name], 4, 6, bidirectional=True)
    inputs = torch.randn(1, 5, 4)
    changed = inputs.clone()
    changed[:, -1] += 1
    before, after = stack(inputs)[0][0, 0], stack(changed)[0][0, 0]
    assert torch.equal(before[:6], after[:6])
    assert not torch.equal(before[6:], after[6:])
