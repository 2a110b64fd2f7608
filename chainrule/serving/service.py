"""What all routes share: the models, the scheduler that runs them, and the metrics."""

from dataclasses import dataclass, field
from pathlib import Path

from chainrule.serving.metrics import Metrics
from chainrule.serving.model_provider import ModelProvider
from chainrule.serving.scheduler import Scheduler


@dataclass(frozen=True)
class Service:
    models: ModelProvider
    scheduler: Scheduler
    metrics: Metrics = field(default_factory=Metrics)
    comparisons: tuple[Path, ...] = ()  # folders written by `chainrule compare`
