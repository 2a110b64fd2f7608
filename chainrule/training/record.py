"""Averages for the journal: sums over the steps since its last line, divided when the next line is due."""

from dataclasses import dataclass
from typing import Any

from chainrule.training.context import Budget

SECONDS_BETWEEN_RECORDS = 1.0
MOST_RECORDS = 500  # of one training


@dataclass
class Records:
    """Sums since the last line of the journal."""

    nats: float = 0.0
    tokens: int = 0
    norm: float = 0.0
    norms: int = 0
    clipped: int = 0
    rate: float = 0.0
    since: float = 0.0
    examples: int = 0  # that the loss is the mean over, where that is not the tokens

    def add(
        self, nats: float, tokens: int, norm: float, is_clipped: bool, rate: float, examples: int | None = None
    ) -> None:
        self.nats += nats
        self.tokens += tokens
        self.norm = max(self.norm, norm)  # an average would hide the one that explodes
        self.norms += 1
        self.clipped += is_clipped
        self.rate = rate
        self.examples += examples or 0

    def is_due(self, seconds: float, budget: Budget) -> bool:
        """Whether the next line is due: by steps where the budget is in steps, so that a repeated training writes the
        same journal; otherwise by time."""
        if budget.steps is not None:
            return self.norms >= max(1, budget.steps // MOST_RECORDS)
        return seconds - self.since >= max(SECONDS_BETWEEN_RECORDS, (budget.seconds or 0) / MOST_RECORDS)

    def averages(self, seconds: float) -> dict[str, Any]:
        """The averages since the last line, for a line written at this second of training."""
        return {
            "loss": self.nats / max(self.examples or self.tokens, 1),
            "learning_rate": self.rate,
            "gradient_norm": self.norm,
            "clipped": self.clipped / max(self.norms, 1),  # which part of the updates
            "tokens_per_second": round(self.tokens / max(seconds - self.since, 1e-9)),
        }
