"""How training finds the best weights: now and then it measures the model on data that it does not learn from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from chainrule.evaluation.figures import loss_figures


@dataclass(frozen=True)
class Validation:
    """The figures of a model at one step, for the journal, and its rank: the best weights have the lowest rank."""

    figures: dict[str, float | None]  # loss, perplexity, bits_per_byte, and what the task adds
    rank: float


Validate = Callable[[Any], Validation]  # measures a model as it is


def figures_of(loss: float, bytes_per_token: float | None) -> dict[str, float | None]:
    """The figures of a mean loss in nats per token, to which a task may add its own."""
    return cast(dict[str, float | None], loss_figures(loss, bytes_per_token))
