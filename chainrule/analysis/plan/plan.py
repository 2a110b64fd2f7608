"""A whole plan for one model: parameters, FLOPs, memory, time and advice."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from chainrule.analysis.plan.advice import TOKENS_PER_PARAMETER, Advice, advise
from chainrule.analysis.plan.compute import Compute, training_compute
from chainrule.analysis.plan.machines import TrainingTime, training_time
from chainrule.analysis.plan.memory import Memory, training_memory
from chainrule.analysis.plan.planned_model import PlannedModel
from chainrule.errors import UserError
from chainrule.kernels.machine import Machine

UTILISATION = 0.4  # the share of peak speed that large trainings are known to reach
LARGEST = 10**9


@dataclass(frozen=True)
class PlanRequest:
    """How the model is to be trained."""

    tokens: int | None = None  # None: what it was trained on, else 20 per parameter
    batch_size: int | None = None  # sequences; None: as published, else 1
    context_length: int | None = None
    utilisation: float = UTILISATION
    devices: int = 1
    price: float | None = None  # of one machine for one hour

    def __post_init__(self) -> None:
        if not 0.001 <= self.utilisation <= 1:
            raise UserError(f"utilisation must be from 0.001 to 1, got {self.utilisation:g}")
        for name in ("batch_size", "context_length", "devices"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= LARGEST:
                raise UserError(f"{name} must be from 1 to {LARGEST:.0e}, got {value}")
        if self.price is not None and not 0 <= self.price <= LARGEST:
            raise UserError(f"price must be a number from 0 to {LARGEST:.0e}, got {self.price:g}")


@dataclass(frozen=True)
class TrainingPlan:
    model: PlannedModel
    compute: Compute
    memory: Memory
    times: list[TrainingTime]
    advice: Advice

    def to_json(self) -> dict[str, object]:
        return {
            "model": self.model.to_json(),
            "compute": asdict(self.compute),
            "memory": asdict(self.memory),
            "times": [asdict(time) for time in self.times],
            "advice": asdict(self.advice),
        }


def make_plan(subject: PlannedModel, request: PlanRequest, machines: Sequence[Machine]) -> TrainingPlan:
    """The plan of training this model; times are given for each of the machines."""
    if request.context_length:
        subject = subject.with_context(request.context_length)
    total = subject.parameters.total
    tokens = request.tokens or subject.training_tokens or TOKENS_PER_PARAMETER * total
    compute = training_compute(subject.parameters.multiplied, tokens, subject.config)
    memory = training_memory(total, subject.config, subject.vocabulary_size, request.batch_size or _batch_size(subject))
    flops = compute.training_flops_with_attention
    times = [
        training_time(machine, flops, memory.total, request.utilisation, request.devices, request.price)
        for machine in machines
    ]
    return TrainingPlan(
        subject, compute, memory, times, advise(total, tokens, compute.training_flops, subject.vocabulary_size)
    )


def _batch_size(subject: PlannedModel) -> int:
    """In sequences: as published, else 1."""
    if subject.config is None or not subject.batch_tokens:
        return 1
    return max(round(subject.batch_tokens / subject.config.context_length), 1)
