"""Records as a training would give them: real ones of healthy trainings, and made-up ones."""

import json
from collections.abc import Sequence
from pathlib import Path

from chainrule.training.callbacks import Record

# The journals of five trainings that went well, shortened: names and tinyshakespeare by Elman network and
# Transformer, ten minutes of the Penn Treebank, three minutes and an hour of tinyshakespeare.
HEALTHY: dict = json.loads((Path(__file__).parent / "healthy.json").read_text())


def step(number: int, of: int, loss: float, norm: float = 0.5, clipped: float = 0.0) -> Record:
    return {
        "event": "step", "step": number, "progress": number / of, "loss": loss, "gradient_norm": norm,
        "clipped": clipped, "learning_rate": 0.01,
    }  # fmt: skip


def steps(losses: Sequence[float], norms: Sequence[float] | None = None, clipped: float = 0.0) -> list[Record]:
    """One record a step."""
    norms = norms or [0.5] * len(losses)
    return [step(i, len(losses), *each, clipped=clipped) for i, each in enumerate(zip(losses, norms, strict=True), 1)]


def evaluation(number: int, loss: float) -> Record:
    return {"event": "evaluation", "step": number, "loss": loss}


def healthy(name: str) -> list[Record]:
    """Steps and evaluations in the order in which they happened."""
    stored = HEALTHY[name]
    names = ("step", "progress", "loss", "gradient_norm", "clipped")
    records = [
        {"event": "step", **dict(zip(names, each, strict=True)), "learning_rate": 0.01} for each in stored["steps"]
    ]
    records += [evaluation(*each) for each in stored["evaluations"]]
    return sorted(records, key=lambda each: each["step"])  # stable: a step comes before its evaluation
