"""Recurrent cells and stacks: equal to torch's cells or to their equations, in values and gradients."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chainrule.layers.cells import CELLS, GRU, LSTM, NONLINEARITIES, UGRNN, Cell, Elman
from chainrule.layers.recurrence import ElmanSteps, GRUSteps, UGRNNSteps
from chainrule.layers.recurrent import Recurrent, reverse
from chainrule.nest import select_rows

TIME, BATCH, INPUT, WIDTH = 5, 3, 4, 6
NAMES = list(CELLS)


@pytest.fixture(autouse=True)
def _in_float64():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def shake(module: nn.Module) -> Any:
    """All parameters random, biases too, so that none can be left out unseen."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def random_state(cell: Cell) -> tuple[Tensor, ...]:
    return tuple(torch.randn(BATCH, WIDTH, requires_grad=True) for _ in range(cell.num_parts))


def gradients(outputs: Tensor, state: tuple[Tensor, ...], wanted: list[Tensor]) -> tuple[Tensor, ...]:
    """Of a sum that gives every output and every part of the last state a weight of its own."""
    whole = torch.cat([outputs.flatten(), *(part.flatten() for part in state)])
    return torch.autograd.grad((whole * torch.linspace(-1, 2, len(whole))).sum(), wanted)


def copy_to_torch(ours: Cell, theirs: nn.Module) -> Any:
    with torch.no_grad():
        theirs.weight_ih.copy_(ours.input_weight)
        theirs.weight_hh.copy_(ours.recurrent_weight)
        theirs.bias_ih.copy_(ours.bias)
        theirs.bias_hh.copy_(ours.second_bias())
    return theirs


def run_torch(cell: nn.Module, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
    outputs = []
    for step in inputs:
        found = cell(step, state if len(state) > 1 else state[0])
        state = found if isinstance(found, tuple) else (found,)
        outputs.append(state[0])
    return torch.stack(outputs), state


@pytest.mark.parametrize(
    ("make", "theirs"),
    [
        (partial(Elman, nonlinearity="tanh"), nn.RNNCell),
        (partial(Elman, nonlinearity="relu"), partial(nn.RNNCell, nonlinearity="relu")),
        (GRU, nn.GRUCell),
        (LSTM, nn.LSTMCell),
    ],
)
def test_a_cell_equals_torchs_in_values_and_gradients(make, theirs):
    ours = shake(make(INPUT, WIDTH))
    torchs = copy_to_torch(ours, theirs(INPUT, WIDTH))
    inputs, state = torch.randn(TIME, BATCH, INPUT, requires_grad=True), random_state(ours)
    outputs, after = ours(inputs, state)
    expected, expected_after = run_torch(torchs, inputs, state)
    torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(after, expected_after, rtol=0, atol=1e-12)
    found = gradients(outputs, after, [inputs, *state, ours.input_weight, ours.recurrent_weight, ours.bias])
    wanted = [inputs, *state, torchs.weight_ih, torchs.weight_hh, torchs.bias_ih]
    torch.testing.assert_close(found, gradients(expected, expected_after, wanted), rtol=0, atol=1e-10)


@pytest.mark.parametrize("make", [Elman, GRU, LSTM])
def test_a_cell_equals_torchs_in_single_precision(make):
    """The LSTM has another kernel there."""
    ours = shake(make(INPUT, WIDTH)).float()
    theirs = {Elman: nn.RNNCell, GRU: nn.GRUCell, LSTM: nn.LSTMCell}[make](INPUT, WIDTH).float()
    inputs = torch.randn(TIME, BATCH, INPUT, dtype=torch.float32, requires_grad=True)
    state = tuple(part.detach().float() for part in random_state(ours))
    outputs, after = ours(inputs, state)
    expected, expected_after = run_torch(copy_to_torch(ours, theirs), inputs, state)
    torch.testing.assert_close((outputs, after), (expected, expected_after), rtol=0, atol=1e-6)
    found, wanted = (torch.autograd.grad(each.square().sum(), inputs)[0] for each in (outputs, expected))
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", [0.3, 30.0])
def test_the_kernels_of_a_gru_agree_with_torchs_operations(scale):
    """In single precision there are kernels, in double there are none; a large scale saturates the gates."""
    shapes = ((20, 5, 3 * 48), (5, 48), (3 * 48, 48), (3 * 48,))
    exact = [
        (each * torch.randn(*shape)).requires_grad_() for shape, each in zip(shapes, [scale, 1, 0.1, 1], strict=True)
    ]
    single = [each.detach().float().requires_grad_() for each in exact]
    weights, found = torch.randn(20, 5, 48), []
    for given in (exact, single):
        outputs = GRUSteps.apply(*given)
        found.append((outputs, *torch.autograd.grad((outputs * weights).sum(), given)))
    for theirs, ours in zip(*found, strict=True):
        torch.testing.assert_close(
            ours.double(), theirs, rtol=1e-5, atol=2e-5 * max(1.0, float(theirs.detach().abs().max()))
        )


@pytest.mark.parametrize(
    ("steps", "gates", "others"), [(ElmanSteps, 1, ["tanh"]), (UGRNNSteps, 2, []), (GRUSteps, 3, [None])]
)
def test_under_autocast_only_the_gradient_of_the_weight_is_rounded(steps, gates, others):
    shapes = [(20, 5, 16 * gates), (5, 16), (16 * gates, 16), *[(16 * gates,)] * (None in others)]
    given, settings = (
        [torch.randn(*shape).float().requires_grad_() for shape in shapes],
        [each for each in others if each],
    )
    found = []
    for rounds in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=rounds):
            outputs = steps.apply(*given, *settings)
        found.append((outputs, *torch.autograd.grad(outputs.sum(), given)))
    for at, (exact, rounded) in enumerate(zip(*found, strict=True)):
        assert rounded.dtype == torch.float32
        if at == 3:
            assert not torch.equal(exact, rounded)
            torch.testing.assert_close(rounded, exact, rtol=0.02, atol=0.02 * float(exact.abs().max()))
        else:
            assert torch.equal(exact, rounded)


def test_the_second_bias_of_a_gru_gets_torchs_gradient():
    ours = shake(GRU(INPUT, WIDTH))
    torchs = copy_to_torch(ours, nn.GRUCell(INPUT, WIDTH))
    inputs, state = torch.randn(TIME, BATCH, INPUT), random_state(ours)
    (found,) = gradients(*ours(inputs, state), [ours.recurrent_bias])
    (expected,) = gradients(*run_torch(torchs, inputs, state), [torchs.bias_hh])
    torch.testing.assert_close(found, expected[2 * WIDTH :], rtol=0, atol=1e-10)


def step_by_hand(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    """One step of the cells that torch does not have, as the equations stand."""
    if isinstance(cell, Elman):
        return torch.sigmoid(cell.recurrent_weight @ h + cell.input_weight @ x + cell.bias)
    width = len(h)
    hr, hg = cell.recurrent_weight[:width], cell.recurrent_weight[width:]
    xr, xg = cell.input_weight[:width], cell.input_weight[width:]
    r = torch.tanh(hr @ h + xr @ x + cell.bias[:width])
    g = torch.sigmoid(hg @ h + xg @ x + cell.bias[width:])
    return g * h + (1 - g) * r


@pytest.mark.parametrize("make", [UGRNN, partial(Elman, nonlinearity="logistic")])
def test_a_cell_equals_its_equations_in_values_and_gradients(make):
    cell = shake(make(INPUT, WIDTH))
    inputs, (before,) = torch.randn(TIME, BATCH, INPUT, requires_grad=True), random_state(cell)
    outputs, after = cell(inputs, (before,))
    rows = []
    for row in range(BATCH):
        h, steps = before[row], []
        for t in range(TIME):
            h = step_by_hand(cell, inputs[t, row], h)
            steps.append(h)
        rows.append(torch.stack(steps))
    expected = torch.stack(rows, 1)
    torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-12)
    wanted = [inputs, before, *cell.parameters()]
    found = gradients(outputs, after, wanted)
    torch.testing.assert_close(found, gradients(expected, (expected[-1],), wanted), rtol=0, atol=1e-10)


@pytest.mark.parametrize("nonlinearity", NONLINEARITIES)
def test_the_backward_of_elman_steps_is_that_of_finite_differences(nonlinearity):
    tensors = [torch.randn(*shape, requires_grad=True) for shape in ((3, 2, 4), (2, 4), (4, 4))]
    assert torch.autograd.gradcheck(lambda *each: ElmanSteps.apply(*each, nonlinearity), tensors)


@pytest.mark.parametrize(("steps", "gates", "bias"), [(UGRNNSteps, 2, []), (GRUSteps, 3, [(12,)])])
def test_the_backward_of_gated_steps_is_that_of_finite_differences(steps, gates, bias):
    shapes = [(3, 2, 4 * gates), (2, 4), (4 * gates, 4), *bias]
    assert torch.autograd.gradcheck(steps.apply, [torch.randn(*shape, requires_grad=True) for shape in shapes])


@pytest.mark.parametrize(("make", "kernel"), [(Elman, "rnn_tanh"), (GRU, "gru")])
def test_the_fused_kernel_for_gpus_gives_the_same(make, kernel):
    cell = shake(make(INPUT, WIDTH))
    inputs, state = torch.randn(TIME, BATCH, INPUT), random_state(cell)
    (fused,) = cell.run_fused(kernel, inputs, cell.input_weight, state, cell.recurrent_weight)
    torch.testing.assert_close(fused, cell(inputs, state)[0], rtol=0, atol=1e-12)


def test_a_new_network_remembers():
    """Gates that keep start open, and rotations keep lengths."""
    assert LSTM(INPUT, WIDTH).bias.tolist() == [0.0] * 6 + [1.0] * 6 + [0.0] * 12
    assert UGRNN(INPUT, WIDTH).bias.tolist() == [0.0] * 6 + [1.0] * 6
    for gate in GRU(INPUT, WIDTH).recurrent_weight.split(WIDTH):
        torch.testing.assert_close(gate @ gate.t(), torch.eye(WIDTH))


def stack(name: str, **options: Any) -> Recurrent:
    return shake(Recurrent(CELLS[name], INPUT, WIDTH, **options))


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_layers_read_each_other(name, residual):
    deep = stack(name, num_layers=3, residual=residual)
    inputs = torch.randn(BATCH, TIME, INPUT)
    hidden, states = inputs.transpose(0, 1), []
    for index, cell in enumerate(deep.cells):
        outputs, state = cell(hidden, cell.start(BATCH))
        hidden = hidden + outputs if residual and index > 0 else outputs
        states.append(state)
    torch.testing.assert_close(deep(inputs), (hidden.transpose(0, 1), tuple(states)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_one_step_at_a_time_equals_all_at_once(name):
    deep = stack(name, num_layers=2, residual=True)
    inputs = torch.randn(BATCH, TIME, INPUT)
    outputs, after = deep(inputs)
    state, found = deep.start(BATCH), []
    for t in range(TIME):
        step, state = deep(inputs[:, t : t + 1], state)
        found.append(step)
    torch.testing.assert_close((torch.cat(found, 1), state), (outputs, after), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_a_state_are_the_states_of_rows(name):
    deep = stack(name, num_layers=2)
    inputs, rows = torch.randn(BATCH, TIME, INPUT), torch.tensor([2, 0, 2])
    found = select_rows(deep(inputs)[1], rows)
    torch.testing.assert_close(found, deep(inputs[rows])[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_row_alone_equals_the_row_in_a_padded_batch(name, bidirectional):
    deep = stack(name, num_layers=2, residual=True, bidirectional=bidirectional)
    inputs, lengths = torch.randn(BATCH, TIME, INPUT, requires_grad=True), torch.tensor([3, 5, 1])
    outputs, after = deep(inputs, lengths=lengths)
    for row, length in enumerate(lengths.tolist()):
        alone, state = deep(inputs[row : row + 1, :length])
        torch.testing.assert_close(outputs[row, :length], alone[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(select_rows(after, [row]), state, rtol=0, atol=1e-12)
        assert outputs[row, length:].eq(0).all()
    padding = torch.arange(TIME) >= lengths[:, None]
    (gradient,) = torch.autograd.grad(outputs.sum() + sum(part.sum() for parts in after for part in parts), inputs)
    assert gradient[padding].eq(0).all()
    assert gradient[~padding].ne(0).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_row_alone_has_the_gradients_of_the_row_in_a_padded_batch(name):
    deep = stack(name, num_layers=2, bidirectional=True)
    inputs, lengths = torch.randn(BATCH, TIME, INPUT), torch.tensor([3, 5, 1])
    parameters = list(deep.parameters())

    def total(outputs: Tensor, state: Any) -> Tensor:
        return outputs.square().sum() + sum(part.square().sum() for parts in state for part in parts)

    together = torch.autograd.grad(total(*deep(inputs, lengths=lengths)), parameters)
    alone = [deep(inputs[row : row + 1, :length]) for row, length in enumerate(lengths.tolist())]
    apart = torch.autograd.grad(sum(total(*each) for each in alone), parameters)
    torch.testing.assert_close(together, apart, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_of_no_steps_keeps_its_state(name):
    deep = stack(name)
    state = (random_state(deep.cells[0]),)
    outputs, after = deep(torch.randn(BATCH, TIME, INPUT), state, torch.tensor([2, 0, 5]))
    torch.testing.assert_close(select_rows(after, [1]), select_rows(state, [1]), rtol=0, atol=0)
    assert outputs[1].eq(0).all()


@pytest.mark.parametrize(("name", "theirs"), [("gru", nn.GRU), ("lstm", nn.LSTM)])
def test_both_directions_equal_torchs_deep_network(name, theirs):
    ours, torchs = stack(name, num_layers=2, bidirectional=True), theirs(INPUT, WIDTH, 2, bidirectional=True)
    with torch.no_grad():
        for index, cell in enumerate(ours.cells):
            end = f"_l{index // 2}" + "_reverse" * (index % 2)
            getattr(torchs, "weight_ih" + end).copy_(cell.input_weight)
            getattr(torchs, "weight_hh" + end).copy_(cell.recurrent_weight)
            getattr(torchs, "bias_ih" + end).copy_(cell.bias)
            getattr(torchs, "bias_hh" + end).copy_(cell.second_bias())
    inputs = torch.randn(BATCH, TIME, INPUT)
    outputs, after = ours(inputs)
    expected, last = torchs(inputs.transpose(0, 1))
    torch.testing.assert_close(outputs, expected.transpose(0, 1), rtol=0, atol=1e-12)
    hidden = last[0] if isinstance(last, tuple) else last
    torch.testing.assert_close(torch.stack([parts[0] for parts in after]), hidden, rtol=0, atol=1e-12)


def test_reverse_turns_each_row_round_within_its_length():
    sequence = torch.tensor([[1, 5], [2, 6], [3, 7], [4, 8]]).unsqueeze(2)  # rows 1 2 3 4 and 5 6 7 8
    assert reverse(sequence, torch.tensor([4, 2])).squeeze(2).t().tolist() == [[4, 3, 2, 1], [6, 5, 7, 8]]
    assert reverse(sequence, None).squeeze(2).t().tolist() == [[4, 3, 2, 1], [8, 7, 6, 5]]


DROPOUTS = {"input_dropout": 0.5, "dropout": 0.5, "recurrent_dropout": 0.5}


@pytest.mark.parametrize("name", NAMES)
def test_dropout_is_off_outside_training_and_follows_the_seed(name):
    torch.manual_seed(1)
    dropped = stack(name, num_layers=2, **DROPOUTS)
    torch.manual_seed(1)
    plain = stack(name, num_layers=2)
    inputs = torch.randn(BATCH, TIME, INPUT)
    torch.testing.assert_close(dropped.eval()(inputs), plain(inputs), rtol=0, atol=0)
    dropped.train()
    found = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        found.append(dropped(inputs)[0])
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


@pytest.mark.parametrize("name", NAMES)
def test_recurrent_dropout_masks_the_recurrent_weights_only_and_once_a_window(name):
    """The same as a cell whose W_h has zeros, and the others doubled, at every step."""
    cell = shake(CELLS[name](INPUT, WIDTH, 0.5))
    masked = CELLS[name](INPUT, WIDTH)
    masked.load_state_dict(cell.state_dict())
    inputs, state = torch.randn(TIME, BATCH, INPUT), random_state(cell)
    torch.manual_seed(7)
    outputs, after = cell(inputs, state)
    torch.manual_seed(7)
    kept = nn.functional.dropout(torch.ones_like(cell.recurrent_weight), 0.5) / 2
    assert 0.2 < kept.mean() < 0.8
    with torch.no_grad():
        masked.recurrent_weight.mul_(kept * 2)
    torch.testing.assert_close((outputs, after), masked(inputs, state), rtol=0, atol=1e-12)
    (found,) = torch.autograd.grad(outputs.sum(), cell.recurrent_weight)
    assert found[kept == 0].eq(0).all()
    assert found[kept == 1].ne(0).any()


def test_recurrent_dropout_leaves_a_single_step_from_nothing_as_it_is():
    """There W_h meets only zeros."""
    dropped = stack("ugrnn", recurrent_dropout=0.9)
    inputs = torch.randn(BATCH, 1, INPUT)
    found = dropped.train()(inputs)[0]
    torch.testing.assert_close(found, dropped.eval()(inputs)[0], rtol=0, atol=0)
