"""The settings of LoRA (layers/lora.py); torch is not imported."""

from dataclasses import dataclass

from chainrule.checks import require_choice, require_fractions, require_number, require_sizes, require_whole
from chainrule.errors import UserError

# `up` is the input of a feed-forward part, beside `gate` where there is one; `other`: every other hidden matrix.
MATRICES = ("query", "key", "value", "attention-output", "gate", "up", "down", "other")


@dataclass(frozen=True)
class LoRA:
    """Which matrices get an update (alpha / rank) B A, and of what size."""

    rank: int = 16
    alpha: float = 32.0
    matrices: tuple[str, ...] = MATRICES
    layers: int | None = None  # only the topmost so many blocks; None: all
    dropout: float = 0.0  # of what A reads

    def __post_init__(self) -> None:
        require_whole("rank", self.rank, 1)
        require_number("alpha", self.alpha, 0)
        require_sizes(self, "layers")
        require_fractions(self, "dropout")
        if not self.alpha:
            raise UserError("alpha must be above 0, since updates are scaled by alpha / rank, got 0")
        if not self.matrices:
            raise UserError(f"matrices must be some of {', '.join(MATRICES)}, got none")
        for name in self.matrices:
            require_choice("matrices", name, MATRICES)

    @property
    def scale(self) -> float:
        return self.alpha / self.rank
