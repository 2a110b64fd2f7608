"""What the training loop needs besides the model and the recipe: batches, the budget, validation, and its position."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.data.batches import Batches, TrainingBatch
from chainrule.evaluation.validation import Validate, Validation, figures_of
from chainrule.training.callbacks import Record

if TYPE_CHECKING:
    from chainrule.training.engine import Advance


@dataclass(frozen=True)
class Budget:
    """When training ends: after some steps, or some seconds."""

    steps: int | None = None
    seconds: float | None = None

    def progress(self, step: int, seconds: float) -> float:
        """The part of the budget that is used, from 0 to 1. In steps, it is taken at the middle of the step, since a
        first or last learning rate of zero would waste an update."""
        if self.steps is not None:
            return (step + 0.5) / self.steps
        assert self.seconds is not None
        return seconds / self.seconds

    def is_over(self, step: int, seconds: float) -> bool:
        return step >= self.steps if self.steps is not None else seconds >= (self.seconds or 0.0)


@dataclass
class Position:
    """How far training is; with the weights and the optimizer's state, all that it needs to go on."""

    step: int = 0
    seconds: float = 0.0
    evaluated: int = 0  # evaluations done
    probed: int = 0  # looks at what the model expects
    best_loss: float | None = None  # or whatever else a task ranks by: the lowest
    best_step: int = 0
    worse: int = 0  # evaluations since the best one
    epoch_nats: float = 0.0  # of the epoch that is under way
    epoch_tokens: int = 0

    @classmethod
    def read(cls, facts: dict[str, Any]) -> "Position":
        """The position stored in a checkpoint; before version 0.2, `probed` was called `glimpsed`."""
        return cls(**{"probed" if name == "glimpsed" else name: value for name, value in facts.items()})


@dataclass
class TrainingContext:
    """What the loop reads, when it stops, and how it measures and shows the model on the way."""

    batches: Batches
    budget: Budget
    validation: Validate | np.ndarray | None = None  # to choose the best weights by; of a stream, its loss
    bytes_per_token: float | None = None  # of the validation text, where bits per byte make sense
    counts: np.ndarray | None = None  # how often each word occurs, for a sampled softmax
    describe_batch: Callable[[TrainingBatch], str] = lambda batch: "a batch"
    sample: Callable[[], str] | None = None
    probe: Callable[[], list[Record]] | None = None
    clock: Callable[[], float] = time.perf_counter
    facts: dict[str, Any] = field(default_factory=dict)  # to keep in every checkpoint
    is_trained: bool = False  # whether the weights before the first step may be the best ones
    objective: "Advance | None" = None  # what is minimised, where it is not `model.advance`

    @property
    def validate(self) -> Validate | None:
        """The function that measures the model during training; None if nothing is held out."""
        return self._loss_of_stream if isinstance(self.validation, np.ndarray) else self.validation

    def _loss_of_stream(self, model: Any) -> Validation:
        loss = float(-model.score(self.validation).astype(np.float64).mean())
        return Validation(figures_of(loss, self.bytes_per_token), loss)
