"""Gradient checking: compares the backward of a module with finite differences, check_gradients(Tanh(), array)."""

from dataclasses import dataclass

import numpy as np

from chainrule.tape.tape import Array, Module, Tape


@dataclass(frozen=True)
class Mismatch:
    """The entry of all gradients with the largest error."""

    input: int  # which of the inputs
    entry: tuple[int, ...]
    backward: float  # what the module says
    difference: float  # what finite differences say
    error: float  # relative

    def __str__(self) -> str:
        place = ", ".join(map(str, self.entry))
        return (
            f"gradient of input {self.input} at [{place}]: backward gives {self.backward:.10g}, finite differences "
            f"{self.difference:.10g}, a relative error of {self.error:.1e}"
        )


def check_gradients(module: Module, *inputs: Array, tolerance: float = 1e-6, step: float = 1e-5) -> Mismatch:
    """Compare every entry of every gradient with the central difference (J(x + step) - J(x - step)) / 2 step.

    All is computed in float64. J is the sum of the outputs, each with a random weight, so that errors cannot cancel.
    Arrays of integers, such as word ids, have no gradient. Returns the entry with the largest error, or raises
    an AssertionError that names it where the error is above `tolerance`.
    """
    arrays = [each.astype(np.float64) if each.dtype.kind == "f" else each for each in map(np.asarray, inputs)]
    tape = Tape()
    values = [tape.value(each.copy(), needs_gradient=each.dtype.kind == "f") for each in arrays]
    output = module(*values)
    weights = np.random.default_rng(0).uniform(0.5, 1.5, output.shape)
    tape.backward(output, weights)

    def objective() -> float:
        fresh = Tape()
        return float((module(*(fresh.value(each) for each in arrays)).array * weights).sum())

    worst = Mismatch(0, (), 0.0, 0.0, 0.0)
    for number, (array, value) in enumerate(zip(arrays, values, strict=True)):
        if not value.needs_gradient:
            continue
        found = np.zeros_like(array) if value.gradient is None else value.gradient
        if found.shape != array.shape:
            raise AssertionError(f"gradient of input {number} has the shape {found.shape}, the input {array.shape}")
        scale = max(float(np.abs(found).max()), 1.0) if found.size else 1.0
        for entry in np.ndindex(array.shape):
            kept = array[entry]
            array[entry] = kept + step
            above = objective()
            array[entry] = kept - step
            difference = (above - objective()) / (2 * step)
            array[entry] = kept
            error = abs(float(found[entry]) - difference) / scale
            if not error <= worst.error:
                worst = Mismatch(number, entry, float(found[entry]), difference, error)
    if not worst.error <= tolerance:
        raise AssertionError(f"{type(module).__name__}: {worst}")
    return worst
