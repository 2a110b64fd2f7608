"""The learning rate over a training: a factor of its peak, by how much of the budget is used."""

from dataclasses import dataclass
from math import cos, pi

from chainrule.checks import require_choice, require_number

SHAPES = ("cosine", "linear", "trapezoidal", "constant")


@dataclass(frozen=True)
class Schedule:
    shape: str = "cosine"
    warmup: float = 0.0  # the part of the budget in which the rate rises from zero
    cooldown: float = 0.4  # trapezoidal: the part at the end in which it falls
    final: float = 0.0  # what is left of the rate at the end

    def __post_init__(self) -> None:
        require_choice("schedule", self.shape, SHAPES)
        require_number("warmup", self.warmup, 0, 1)
        require_number("cooldown", self.cooldown, 0, 1)
        require_number("final_rate", self.final, 0, 1)

    def factor(self, progress: float) -> float:
        """progress: 0 at the first update, 1 when the budget is used up, whether that is steps or time."""
        progress = min(max(progress, 0.0), 1.0)
        if progress < self.warmup:
            return progress / self.warmup
        after = (progress - self.warmup) / max(1 - self.warmup, 1e-12)
        if self.shape == "cosine":
            falling = (1 + cos(pi * after)) / 2
        elif self.shape == "linear":
            falling = 1 - after
        elif self.shape == "trapezoidal":
            falling = min(1.0, (1 - progress) / max(self.cooldown, 1e-12))
        else:
            return 1.0
        return self.final + (1 - self.final) * falling
