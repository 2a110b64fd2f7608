"""What the routes share: the models, the engine that runs them, and what is counted."""

from dataclasses import dataclass, field
from pathlib import Path

from chainrule.serving.library import Library
from chainrule.serving.metrics import Metrics
from chainrule.serving.scheduler import Engine


@dataclass(frozen=True)
class Service:
    library: Library
    engine: Engine
    metrics: Metrics = field(default_factory=Metrics)
    comparisons: tuple[Path, ...] = ()  # folders that `chainrule compare` made
