"""Finds units that learn nothing: rectified ones that are never above zero, tanh and logistic ones at their bounds.

Where a nonlinearity has no slope no gradient passes, so that the weights before it do not change.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from chainrule.analysis.doctor.layers import nonlinear_modules
from chainrule.analysis.doctor.subject import Subject
from chainrule.layers.cells import Cell, Parts
from chainrule.layers.feedforward import FeedForward
from chainrule.layers.gates import RELU, TANH, gates
from chainrule.models._neural import NeuralModel
from chainrule.training.finding import Finding, Severity

ROWS, LENGTH = 32, 128  # of the windows of text that are read
BOUND = 0.99  # from here on a tanh unit counts as saturated; logistic ones as near to 0 or 1
STUCK_TIME = 0.95  # the share of positions at which a stuck unit is saturated
SOME, MANY = 0.1, 0.5  # the share of a layer's units for a note and for a problem
LAYERS_NAMED = 3

Take = Callable[[str, str, Tensor], None]  # (layer, nonlinearity, values)
Hook = Callable[..., None]  # torch calls it with the module, its inputs and its output


@dataclass(frozen=True)
class UnitLayer:
    """A layer of nonlinear units, and how many of them are idle."""

    name: str
    nonlinearity: str  # RELU stands for all functions that are flat below zero, such as gelu and silu
    units: int
    idle: int  # dead or stuck

    @property
    def share(self) -> float:
        return self.idle / self.units


def idle_units(nonlinearity: str, values: Tensor) -> Tensor:
    """Which units are idle: rectified ones never above zero, others nearly always at a bound.

    (positions, units) -> (units)
    """
    if nonlinearity == RELU:
        return (values <= 0).all(0)
    at_bound = values.abs() > BOUND if nonlinearity == TANH else (values - 0.5).abs() > BOUND - 0.5
    return at_bound.float().mean(0) > STUCK_TIME


@torch.no_grad()
def read_layers(model: NeuralModel, tokens: Tensor) -> list[UnitLayer]:
    """The layers of nonlinear units in the order of computation, as they react to tokens (batch, time)."""
    found: list[UnitLayer] = []

    def take(name: str, nonlinearity: str, values: Tensor) -> None:
        idle = idle_units(nonlinearity, values.flatten(0, -2))
        found.append(UnitLayer(name, nonlinearity, len(idle), int(idle.sum())))

    handles = [module.register_forward_hook(hook) for module, hook in _hooks(model, take)]
    try:
        model.read(tokens, model.start(len(tokens)) if model.carries_state else None)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _hooks(model: NeuralModel, take: Take) -> Iterator[tuple[nn.Module, Hook]]:
    """The modules to observe, each with a hook that passes its units on to `take`."""
    for name, module in model.named_modules():
        if isinstance(module, FeedForward):
            yield module.input, _observe_feedforward(name, module.activation, take)
        elif isinstance(module, Cell):
            yield module, _observe_cell(name, module, take)
    for name, module, nonlinearity in nonlinear_modules(model):
        yield module, _observe_output(name, nonlinearity, take)
    hidden = model.hidden_layer()
    if hidden is not None:
        yield hidden[0], _observe_hidden(hidden[1], take)


def _observe_feedforward(name: str, activation: str, take: Take) -> Hook:
    def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        take(name, RELU, output.chunk(2, -1)[0] if activation == "swiglu" else output)

    return hook


def _observe_cell(name: str, cell: Cell, take: Take) -> Hook:
    def hook(module: nn.Module, inputs: tuple[Tensor, Parts], output: tuple[Tensor, Parts]) -> None:
        for gate, (nonlinearity, values) in gates(cell, inputs[0], inputs[1], output[0]).items():
            take(f"{gate} of {name}", nonlinearity, values)

    return hook


def _observe_output(name: str, nonlinearity: str, take: Take) -> Hook:
    def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        take(name, nonlinearity, output)

    return hook


def _observe_hidden(nonlinearity: str, take: Take) -> Hook:
    def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        take("hidden", nonlinearity, output.tanh() if nonlinearity == TANH else output)

    return hook


def look_at_units(subject: Subject) -> list[Finding]:
    """Findings about dead and stuck units on some validation text, or on training text where there is no other."""
    model = subject.model
    if not isinstance(model, NeuralModel):
        return []
    length = min(LENGTH, model.context_length or LENGTH)
    tokens = subject.tokens("validation", ROWS, length)
    tokens = subject.tokens("train", ROWS, length) if tokens is None else tokens
    if tokens is None:
        return []
    layers = read_layers(model, torch.from_numpy(tokens))
    if not layers:
        return []
    return _describe(layers, tokens.size)


def _describe(layers: list[UnitLayer], tokens: int) -> list[Finding]:
    kinds = (
        ("dead units", "never above zero", [each for each in layers if each.nonlinearity == RELU],
         "lower the rates (learning_rate, matrix_learning_rate), which can kill units, or use activation=gelu; or, "
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
