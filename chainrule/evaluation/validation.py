"""What training looks at now and then to know how good the model is, and which of its weights were the best."""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp
from typing import Any

from chainrule.evaluation.score import NATS_PER_BIT


@dataclass(frozen=True)
class Validation:
    """`figures` go to the journal, the loss among them; the best weights are those of the lowest `rank`."""

    figures: dict[str, float | None]
    rank: float


Validate = Callable[[Any], Validation]  # of the model as it is


def figures_of(loss: float, bytes_per_token: float | None) -> dict[str, float | None]:
    """A mean loss in nats per token, as people like to read it."""
    return {
        "loss": loss,
        "perplexity": exp(min(loss, 700)),
        "bits_per_byte": loss / NATS_PER_BIT / bytes_per_token if bytes_per_token else None,
    }
