"""How fast machines multiply matrices: accelerators as published by their makers, this one as measured."""

import math
from dataclasses import dataclass

from chainrule.analysis.plan.quantities import parse_count
from chainrule.errors import UserError, did_you_mean
from chainrule.kernels.machine import Machine, measure_this_machine

THIS = "this"


ACCELERATORS = {
    "v100": Machine("V100", 125e12, "float16", 32e9),
    "a100": Machine("A100", 312e12, "bfloat16", 80e9),
    "h100": Machine("H100", 989e12, "bfloat16", 80e9),
    "tpu-v3": Machine("TPU v3", 123e12, "bfloat16", 32e9),
    "tpu-v4": Machine("TPU v4", 275e12, "bfloat16", 32e9),
}
SHOWN = (THIS, "v100", "a100", "h100")  # where none is asked for


def find_machine(name: str) -> Machine:
    """The machine of that name: 'this' is measured, 'a100' looked up, '6.5T' is a speed in FLOP/s."""
    key = name.strip().lower()
    if key == THIS:
        return measure_this_machine()
    if key in ACCELERATORS:
        return ACCELERATORS[key]
    if key[:1].isdigit():
        return Machine("given speed", float(parse_count(name, "the speed of a machine")), "", None)
    known = (THIS, *ACCELERATORS)
    hint = did_you_mean(key, known)
    raise UserError(
        f"unknown machine '{name}'{hint} (there are: {', '.join(known)}, or a speed in FLOP/s such as 6.5T)"
    )


@dataclass(frozen=True)
class TrainingTime:
    """How long a training takes on `devices` machines of one kind at this utilisation."""

    machine: str
    flops_per_second: float
    number_format: str
    devices: int
    utilisation: float
    seconds: float
    devices_for_memory: int | None  # the fewest that can hold weights, gradients and optimizer state
    cost: float | None = None


def training_time(
    machine: Machine,
    flops: float,
    memory_bytes: float,
    utilisation: float = 1.0,
    devices: int = 1,
    price: float | None = None,
) -> TrainingTime:
    """The time that `flops` take, and the cost at a `price` per machine and hour."""
    seconds = flops / (machine.flops_per_second * utilisation * devices)
    return TrainingTime(
        machine.title,
        machine.flops_per_second,
        machine.number_format,
        devices,
        utilisation,
        seconds,
        math.ceil(memory_bytes / machine.memory_bytes) if machine.memory_bytes else None,
        None if price is None else price * devices * seconds / 3600,
    )
