"""Recurrent cells, one layer and one direction each: Elman, UGRNN, GRU and LSTM.

Memory is time-first, (time, batch, width), and what the inputs add to all steps is one matrix product. torch's fused
kernels run the LSTM, and on a GPU whatever else they can; on a CPU our loops are faster.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.layers.autocast import in_autocast_dtype
from chainrule.layers.linear import linear
from chainrule.layers.recurrence import ElmanSteps, GRUSteps, UGRNNSteps

Parts = tuple[Tensor, ...]  # the state of one cell: h, or h and c; (batch, width) each

NONLINEARITIES = ("logistic", "tanh", "relu")
SHUT = 1e4  # σ(-SHUT) is exactly 0 and σ(SHUT) exactly 1


class Cell(nn.Module):
    """Reads inputs (time, batch, input width) from a state; gives outputs (time, batch, width) and a state.

    W_x starts uniform with the variance 1/(input width), biases at 0, and each gate's W_h as a random rotation, so that
    neither shrinks nor grows what it is given.
    """

    gates = 1
    num_parts = 1

    def __init__(self, input_width: int, width: int, recurrent_dropout: float = 0.0):
        super().__init__()
        self.width, self.recurrent_dropout = width, recurrent_dropout
        self.input_weight = nn.Parameter(torch.empty(self.gates * width, input_width))  # W_x
        self.recurrent_weight = nn.Parameter(torch.empty(self.gates * width, width))  # W_h
        self.bias = nn.Parameter(torch.zeros(self.gates * width))
        nn.init.uniform_(self.input_weight, -((3 / input_width) ** 0.5), (3 / input_width) ** 0.5)
        for gate in self.recurrent_weight.detach().split(width):
            nn.init.orthogonal_(gate)

    def start(self, batch_size: int) -> Parts:
        return tuple(self.bias.new_zeros(batch_size, self.width) for _ in range(self.num_parts))

    def forward(self, inputs: Tensor, state: Parts, lengths: Tensor | None = None) -> tuple[Tensor, Parts]:
        """The new state is that after the last step, or where rows end earlier after `lengths` (batch) steps.

        In training each weight of W_h is dropped for the whole window, as in AWD-LSTM (Merity et al. 2017).
        """
        weight = F.dropout(self.recurrent_weight, self.recurrent_dropout, self.training)
        outputs, *others = self.run(inputs, state, weight, lengths)
        hidden = outputs[-1] if lengths is None else _pick(outputs, lengths, state[0])
        return outputs, (hidden, *others)

    def run(self, inputs: Tensor, state: Parts, weight: Tensor, lengths: Tensor | None) -> Parts:
        """All outputs (time, batch, width), then every part of the new state but h."""
        raise NotImplementedError

    def project(self, inputs: Tensor) -> Tensor:
        """What the inputs add to the gates of all steps, W_x x + b: (time, batch, gates * width)."""
        return linear(inputs, self.input_weight, self.bias).to(self.bias.dtype)

    def second_bias(self) -> Tensor:
        """torch has a bias beside W_h too; where a cell needs none it is 0."""
        return torch.zeros_like(self.bias)

    def run_fused(self, kernel: str, inputs: Tensor, input_weight: Tensor, state: Parts, weight: Tensor) -> Parts:
        """The same as `run` by torch's own kernel."""
        given = (inputs, input_weight, weight, self.bias, self.second_bias(), *state)
        dtype, (inputs, *rest) = inputs.dtype, in_autocast_dtype(*given)
        weights, layers = rest[:4], tuple(part.unsqueeze(0) for part in rest[4:])  # states: (1, batch, width) each
        layout = {"has_biases": True, "num_layers": 1, "dropout": 0.0, "bidirectional": False, "batch_first": False}
        outputs, _, *others = getattr(torch, kernel)(
            inputs, layers if self.num_parts > 1 else layers[0], weights, train=torch.is_grad_enabled(), **layout
        )
        return outputs.to(dtype), *(part.squeeze(0).to(dtype) for part in others)


class Elman(Cell):
    """h_t = σ(W_h h_{t-1} + W_x x_t + b), where σ is logistic, tanh or relu."""

    def __init__(self, input_width: int, width: int, recurrent_dropout: float = 0.0, nonlinearity: str = "tanh"):
        super().__init__(input_width, width, recurrent_dropout)
        self.nonlinearity = nonlinearity

    def run(self, inputs: Tensor, state: Parts, weight: Tensor, lengths: Tensor | None) -> Parts:
        if inputs.is_cuda and self.nonlinearity != "logistic":
            return self.run_fused(f"rnn_{self.nonlinearity}", inputs, self.input_weight, state, weight)
        return (ElmanSteps.apply(self.project(inputs), state[0], weight, self.nonlinearity),)


class UGRNN(Cell):
    """h_t = G ⊙ h_{t-1} + (1 - G) ⊙ R, with R = tanh(W_h h_{t-1} + W_x x_t + b), G = σ(the same with its own weights).

    Collins, Sohl-Dickstein & Sussillo 2016. The bias of G starts at 1: a new network remembers.
    """

    gates = 2  # R, G

    def __init__(self, input_width: int, width: int, recurrent_dropout: float = 0.0):
        super().__init__(input_width, width, recurrent_dropout)
        nn.init.ones_(self.bias.detach()[width:])

    def run(self, inputs: Tensor, state: Parts, weight: Tensor, lengths: Tensor | None) -> Parts:
        return (UGRNNSteps.apply(self.project(inputs), state[0], weight),)


class GRU(Cell):
    """r, z = σ(W_h h_{t-1} + W_x x_t + b), n = tanh(W_x x_t + b + r ⊙ (W_h h_{t-1} + c)), each with its own weights;
    h_t = (1 - z) ⊙ n + z ⊙ h_{t-1}. Cho et al. 2014, in the form that torch has.
    """

    gates = 3  # r, z, n

    def __init__(self, input_width: int, width: int, recurrent_dropout: float = 0.0):
        super().__init__(input_width, width, recurrent_dropout)
        self.recurrent_bias = nn.Parameter(torch.zeros(width))  # c

    def second_bias(self) -> Tensor:
        return F.pad(self.recurrent_bias, (2 * self.width, 0))

    def run(self, inputs: Tensor, state: Parts, weight: Tensor, lengths: Tensor | None) -> Parts:
        if inputs.is_cuda:
            return self.run_fused("gru", inputs, self.input_weight, state, weight)
        return (GRUSteps.apply(self.project(inputs), state[0], weight, self.second_bias()),)


class LSTM(Cell):
    """i, f, o = σ(W_h h_{t-1} + W_x x_t + b), g = tanh(the same), each with its own weights;
    c_t = f ⊙ c_{t-1} + i ⊙ g, h_t = o ⊙ tanh(c_t). Hochreiter & Schmidhuber 1997.

    The bias of f starts at 1 (Jozefowicz et al. 2015): a new network remembers.
    """

    gates = 4  # i, f, g, o
    num_parts = 2  # h, c

    def __init__(self, input_width: int, width: int, recurrent_dropout: float = 0.0):
        super().__init__(input_width, width, recurrent_dropout)
        nn.init.ones_(self.bias.detach()[width : 2 * width])

    def run(self, inputs: Tensor, state: Parts, weight: Tensor, lengths: Tensor | None) -> Parts:
        input_weight: Tensor = self.input_weight
        if lengths is not None:
            inputs, input_weight = self._mark_ends(inputs, lengths)
        return self.run_fused("lstm", inputs, input_weight, state, weight)

    def _mark_ends(self, inputs: Tensor, lengths: Tensor) -> Parts:
        """One more input that is 1 after a row's end, and its weights: it shuts i and opens f, so that c stays."""
        marks = after_end(len(inputs), lengths).unsqueeze(2).to(inputs.dtype)  # (time, batch, 1)
        column = inputs.new_tensor([-SHUT, SHUT, 0, 0]).repeat_interleave(self.width).unsqueeze(1)
        return torch.cat([inputs, marks], 2), torch.cat([self.input_weight, column], 1)


CELLS: dict[str, type[Cell]] = {"elman": Elman, "ugrnn": UGRNN, "gru": GRU, "lstm": LSTM}


def after_end(time: int, lengths: Tensor) -> Tensor:
    """(time, batch): whether a step is past the end of its row."""
    return torch.arange(time, device=lengths.device).unsqueeze(1) >= lengths


def _pick(outputs: Tensor, lengths: Tensor, before: Tensor) -> Tensor:
    """The output of each row at its last step, (batch, width); a row of no steps is as it was before."""
    rows = torch.arange(len(lengths), device=lengths.device)
    return torch.where((lengths > 0).unsqueeze(1), outputs[(lengths - 1).clamp(min=0), rows], before)
