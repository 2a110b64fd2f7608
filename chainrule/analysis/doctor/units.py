"""Units that learn nothing: rectified ones that are never above zero, tanh and logistic ones stuck at their bounds.

Where a nonlinearity has no slope no gradient passes, so that what comes before it cannot change.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from chainrule.analysis.doctor.subject import Subject
from chainrule.layers.cells import Cell
from chainrule.layers.feedforward import FeedForward
from chainrule.layers.gates import RELU, TANH, gates
from chainrule.models._neural import NeuralModel
from chainrule.training.finding import Finding, Severity

ROWS, LENGTH = 32, 128  # windows of text that are read
BOUND = 0.99  # of tanh; logistic units are stuck as near to 0 or 1
STUCK_TIME = 0.95  # at a bound at so many of the positions
SOME, MANY = 0.1, 0.5  # of the units of a layer
LAYERS_NAMED = 3

Take = Callable[[str, str, Tensor], None]  # (layer, nonlinearity, values)
Hook = Callable[[nn.Module, Any, Any], None]


@dataclass(frozen=True)
class Layer:
    name: str
    nonlinearity: str  # relu stands for all that cut off what is below zero, gelu and silu among them
    units: int
    idle: int  # dead or stuck

    @property
    def share(self) -> float:
        return self.idle / self.units


def idle_units(nonlinearity: str, values: Tensor) -> Tensor:
    """(positions, units) -> (units): rectified ones never above zero, others nearly always at a bound."""
    if nonlinearity == RELU:
        return (values <= 0).all(0)
    at_bound = values.abs() > BOUND if nonlinearity == TANH else (values - 0.5).abs() > BOUND - 0.5
    return at_bound.float().mean(0) > STUCK_TIME


@torch.no_grad()
def read_layers(model: NeuralModel, tokens: Tensor) -> list[Layer]:
    """The layers of nonlinear units, in the order in which tokens (batch, time) go through them."""
    found: list[Layer] = []

    def take(name: str, nonlinearity: str, values: Tensor) -> None:
        idle = idle_units(nonlinearity, values.flatten(0, -2))
        found.append(Layer(name, nonlinearity, len(idle), int(idle.sum())))

    handles = [module.register_forward_hook(hook) for module, hook in _listeners(model, take)]
    try:
        model.read(tokens, model.start(len(tokens)) if model.carries_state else None)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _listeners(model: NeuralModel, take: Take) -> Iterator[tuple[nn.Module, Hook]]:
    """Which modules to listen to, and what to make of what comes out."""
    for name, module in model.named_modules():
        if isinstance(module, FeedForward):
            yield module.input, _hear_feedforward(name, module.activation, take)
        elif isinstance(module, Cell):
            yield module, _hear_cell(name, module, take)
    hidden = getattr(model, "hidden", None)
    if isinstance(hidden, nn.Linear):  # the only such layer of mlp, bow and attention
        yield hidden, _hear_hidden(getattr(model.config, "activation", TANH), take)


def _hear_feedforward(name: str, activation: str, take: Take) -> Hook:
    def hook(module: nn.Module, inputs: Any, output: Any) -> None:
        take(name, RELU, output.chunk(2, -1)[0] if activation == "swiglu" else output)

    return hook


def _hear_cell(name: str, cell: Cell, take: Take) -> Hook:
    def hook(module: nn.Module, inputs: Any, output: Any) -> None:
        for gate, (nonlinearity, values) in gates(cell, inputs[0], inputs[1], output[0]).items():
            take(f"{gate} of {name}", nonlinearity, values)

    return hook


def _hear_hidden(activation: str, take: Take) -> Hook:
    def hook(module: nn.Module, inputs: Any, output: Any) -> None:
        take("hidden", *((TANH, output.tanh()) if activation == TANH else (RELU, output)))

    return hook


def look_at_units(subject: Subject) -> list[Finding]:
    """Dead and stuck units over some validation text, or training text where there is no other."""
    model = subject.model
    assert isinstance(model, NeuralModel)
    length = min(LENGTH, model.context_length or LENGTH)
    tokens = subject.tokens("validation", ROWS, length)
    tokens = subject.tokens("train", ROWS, length) if tokens is None else tokens
    if tokens is None:
        return []
    layers = read_layers(model, torch.from_numpy(tokens))
    if not layers:
        return []
    return _describe(layers, tokens.size)


def _describe(layers: list[Layer], tokens: int) -> list[Finding]:
    kinds = (
        ("dead units", "never above zero", [each for each in layers if each.nonlinearity == RELU],
         "lower the rates (learning_rate, matrix_learning_rate), which push units there, or use activation=gelu; or, "
         "if quality is good, a smaller hidden_width"),
        ("saturated units", "nearly always at a bound", [each for each in layers if each.nonlinearity != RELU],
         "lower the rates (learning_rate, matrix_learning_rate), clip gradients, or add weight_decay=0.01"),
    )  # fmt: skip
    found = []
    for name, state, mine, advice in kinds:
        sick = sorted((each for each in mine if each.share >= SOME), key=lambda each: -each.share)
        if sick:
            worst = ", ".join(f"{each.share:.0%} of {each.units:,} in {each.name}" for each in sick[:LAYERS_NAMED])
            more = f" and in {len(sick) - LAYERS_NAMED} more layers" if len(sick) > LAYERS_NAMED else ""
            severity: Severity = "problem" if sick[0].share >= MANY else "note"
            found.append(Finding(name, severity, f"{worst}{more} are {state} in {tokens:,} tokens", advice))
    if not found:
        units, idle = sum(each.units for each in layers), sum(each.idle for each in layers)
        found.append(Finding("units", "good", f"{idle:,} of {units:,} are dead or saturated in {tokens:,} tokens"))
    return found
