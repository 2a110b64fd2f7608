"""The learning rate over a training: a factor of its peak, by how much of the budget is used."""

from dataclasses import dataclass
from math import cos, pi

from chainrule.errors import UserError, did_you_mean

SHAPES = ("cosine", "linear", "trapezoidal", "constant")


@dataclass(frozen=True)
class Schedule:
    shape: str = "cosine"
    warmup: float = 0.0  # the part of the budget in which the rate rises from zero
    cooldown: float = 0.4  # trapezoidal: the part at the end in which it falls
    final: float = 0.0  # what is left of the rate at the end

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise UserError(
                f"schedule must be one of {', '.join(SHAPES)}, got '{self.shape}'{did_you_mean(self.shape, SHAPES)}"
            )
        for name in ("warmup", "cooldown", "final"):
            if not 0 <= getattr(self, name) <= 1:
                label = "final_rate" if name == "final" else name
                raise UserError(f"{label} must be from 0 to 1, got {getattr(self, name)}")

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
