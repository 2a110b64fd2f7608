"""The whole of a plan: parameters, FLOPs, memory, time and advice for one model."""

from collections.abc import Sequence
from dataclasses import dataclass

from chainrule.analysis.plan.advice import TOKENS_PER_PARAMETER, Advice, advise
from chainrule.analysis.plan.compute import Compute, training_compute
from chainrule.analysis.plan.machines import Time, training_time
from chainrule.analysis.plan.memory import Memory, training_memory
from chainrule.analysis.plan.planned_model import PlannedModel
from chainrule.errors import UserError
from chainrule.kernels.machine import Machine

UTILISATION = 0.4  # of the peak: what large trainings are known to reach
LARGEST = 10**9


@dataclass(frozen=True)
class Request:
    tokens: int | None = None  # None: what it was trained on, else 20 per parameter
    batch_size: int | None = None  # sequences; None: as published, else 1
    context_length: int | None = None
    utilisation: float = UTILISATION
    devices: int = 1
    price: float | None = None  # of one machine for one hour

    def __post_init__(self) -> None:
        if not 0.001 <= self.utilisation <= 1:
            raise UserError(f"--utilisation must be from 0.001 to 1, got {self.utilisation:g}")
        for name in ("batch_size", "context_length", "devices"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= LARGEST:
                raise UserError(f"--{name.replace('_', '-')} must be from 1 to {LARGEST:.0e}, got {value}")
        if self.price is not None and not 0 <= self.price <= LARGEST:
            raise UserError(f"--price must be a number from 0 to {LARGEST:.0e}, got {self.price:g}")


@dataclass(frozen=True)
class Plan:
    model: PlannedModel
    compute: Compute
    memory: Memory
    times: list[Time]
    advice: Advice


def make_plan(subject: PlannedModel, request: Request, machines: Sequence[Machine]) -> Plan:
    if request.context_length:
        subject = subject.with_context(request.context_length)
    total = subject.parameters.total
    tokens = request.tokens or subject.training_tokens or TOKENS_PER_PARAMETER * total
    compute = training_compute(subject.parameters.multiplied, tokens, subject.shape)
    memory = training_memory(total, subject.shape, request.batch_size or _batch_size(subject))
    flops = compute.training_flops_with_attention
    times = [
        training_time(machine, flops, memory.total, request.utilisation, request.devices, request.price)
        for machine in machines
    ]
    return Plan(subject, compute, memory, times, advise(total, tokens, compute.training_flops, subject.vocabulary_size))


def _batch_size(subject: PlannedModel) -> int:
    if subject.shape is None or not subject.batch_tokens:
        return 1
    return max(round(subject.batch_tokens / subject.shape.context_length), 1)
